// The stages under test. A stage joins here, by its declaration and by one line in a list; every test
// of tests/conformance then runs over it: a CPU stage in test_conformance, a CUDA stage in
// test_conformance_emulator and on a GPU in test_conformance_gpu.
#pragma once

#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/stage.hpp"

namespace fa {

Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
Stage stage4_stage();
std::vector<Stage> stage5_steps();

/// A stage, and how it is to run.
struct Variant {
  std::string name;  // "stage3_tiled_cpu, tile 16 x 32"
  Stage stage;
  Tile tile = {};  // 0: the stage's default
  Device device = Device::automatic;
  Index most_d = std::numeric_limits<Index>::max();    // larger head dimensions are to be refused
  std::function<std::shared_ptr<void>()> around = {};  // what must live while it runs
  bool whole_suite = true;  // else only probes, cases, ragged shapes and strides
};

inline std::vector<Stage> cpu_stages() {
  return {
      stage1_stage(),
      stage2_stage(),
      stage3_stage(),
  };
}

inline std::vector<Variant> device_stages(Device device) {
  const std::string where = device == Device::gpu ? " on the GPU" : " in the emulator";
  std::vector<Variant> variants = {
      {"stage4_simple_cuda" + where, stage4_stage(), {}, device, 256},
  };
  // The newest step, and the newest that takes any d, take the whole suite; all of them what shows most.
  std::size_t newest = 0;
  for (const Stage& step : stage5_steps()) {
    variants.push_back({"step " + step.step + where, step, {}, device});
    variants.back().whole_suite = false;
    if (step.takes_d(1)) newest = variants.size() - 1;
  }
  variants[newest].whole_suite = variants.back().whole_suite = true;
  return variants;
}

/// What this program tests, chosen by which file of tests/suites it is linked with.
struct Suite {
  enum class On { cpu, emulator, gpu } on;
  std::vector<Variant> variants;
};
const Suite& suite();

/// Every variant, also those that don't take the whole suite.
inline const std::vector<Variant>& every_variant() { return suite().variants; }

/// Those that take the whole suite.
inline const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> whole = [] {
    std::vector<Variant> some;
    for (const Variant& variant : every_variant())
      if (variant.whole_suite) some.push_back(variant);
    return some;
  }();
  return whole;
}

/// Those that take the whole suite, and of the others the n-th part whose turn it is: a sweep over many
/// problems shows every step some of them, in the time that the emulator takes for a few. All on a GPU, and
/// where FA_EVERY_STEP is set.
inline std::vector<Variant> in_turn(std::size_t n, std::size_t parts) {
  static const bool every_step = std::getenv("FA_EVERY_STEP") != nullptr;
  std::vector<Variant> some;
  const std::vector<Variant>& all = every_variant();
  for (std::size_t v = 0; v < all.size(); ++v)
    if (all[v].whole_suite || every_step || suite().on == Suite::On::gpu || (n + v) % parts == 0)
      some.push_back(all[v]);
  return some;
}

inline bool takes(const Variant& variant, DType dtype) {
  for (const DType known : variant.stage.dtypes)
    if (known == dtype) return true;
  return false;
}

inline bool takes_d(const Variant& variant, Index d) {
  return d <= variant.most_d && (!variant.stage.takes_d || variant.stage.takes_d(d));
}

/// The head dimension for a test that any would do for: d, or where the variant refuses it the next
/// multiple of 64 that it takes, or 64.
inline Index d_for(const Variant& variant, Index d) {
  if (takes_d(variant, d)) return d;
  for (Index more = (d + 63) / 64 * 64; more <= 256; more += 64)
    if (takes_d(variant, more)) return more;
  return 64;
}

/// A problem, and variants that take it.
struct Group {
  Problem p;
  std::vector<Variant> variants;
};

/// All of these variants that take the problem's type, each with the problem's d or with another that it
/// takes instead (d_for): no step is left out of a test because of a d that the test doesn't depend on.
inline std::vector<Group> by_d(const Problem& p, const std::vector<Variant>& variants) {
  std::vector<Group> groups;
  for (const Variant& variant : variants) {
    if (!takes(variant, p.dtype)) continue;
    const Index d = d_for(variant, p.d);
    auto group = groups.begin();
    while (group != groups.end() && group->p.d != d) ++group;
    if (group == groups.end()) {
      group = groups.insert(group, {p, {}});
      group->p.d = d;
      if (p.scale == default_scale(p.d)) group->p.scale = default_scale(d);
    }
    group->variants.push_back(variant);
  }
  return groups;
}

}  // namespace fa
