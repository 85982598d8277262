#include "tests/probes.hpp"

#include <map>
#include <stdexcept>
#include <tuple>

namespace fa {

namespace {

constexpr std::uint64_t kSeed = 2026;

struct Probe {
  std::string name;
  std::string pattern;
  Problem problem;
  float all = 0;   // not 0: every element of Q, K and V is this, and so must be every element of O
  float rise = 0;  // not 0: scores rise by so many powers of 2; rows mustn't depend on each other
};

/// Which probes a stage gets.
enum class Size {
  cpu,
  emulator,  // smaller: several tiles of keys are enough
  steps,     // in the emulator, for kernels that copy 16 bytes at a time and multiply in 16 bits
};

Size size_for(const Variant& variant) {
  if (variant.device != Device::simt) return Size::cpu;
  return variant.stage.number < 5 ? Size::emulator : Size::steps;
}

/// Two query heads a KV head, more keys than queries, sizes that no tile divides. Two batch items and
/// columns that are missing show what only a kernel can get wrong.
Problem ragged(DType dtype, Size size, bool any_d) {
  const bool in_emulator = size != Size::cpu;
  const Index d = !any_d ? 64 : size == Size::cpu ? 40 : size == Size::steps ? 56 : 63;
  Problem p = one_head(70, in_emulator ? 133 : 601, d, dtype);
  p.B = in_emulator ? 2 : 1;
  p.Hq = 4;
  p.Hkv = 2;
  return p;
}

std::vector<Probe> probes(DType dtype, Size size, bool any_d) {
  const Problem p = ragged(dtype, size, any_d);
  Problem more_queries = p;
  more_queries.Nq = size == Size::steps ? 240 : 150;  // a block of 128 queries that see no key
  more_queries.Nkv = 101;
  std::vector<Probe> all = {
      {"random", "normal", p},
      {"random causal", "normal", with_mask(p, true)},
      {"stairs-up", "stairs-up", p},
      {"stairs-down", "stairs-down", p},
      {"all-low", "all-low", p},
      {"long-tail", "long-tail", p},
      {"random window", "normal", with_mask(more_queries, false, 45, 9)},
  };
  // float16 ends at 65,504. A stage gets those d that it takes.
  for (const Index d :
       size == Size::steps ? std::vector<Index>{40, 64, 128} : std::vector<Index>{40})
    for (const float value : dtype == DType::float16 ? std::vector<float>{50016, 60000}
                                                     : std::vector<float>{133120, 199680})
      all.push_back({"huge scores", "constant", one_head(33, 33, d, dtype), value});
  if (size == Size::steps) {  // which take the scale apart: its size, its sign
    Problem negative = p;
    negative.scale = -p.scale;
    all.push_back({"negative scale", "normal", negative});
    // Many stages of keys. The 40 first queries see the first key, and those of a warp begin in two tiles.
    // Query 32, a warp's first, misses the last of 128 keys. The first warp sees fewer stages than the last.
    all.push_back(
        {"long window", "normal", with_mask(one_head(150, 600, p.d, dtype), false, 490, 28)});
    // Later scores pass the first ones' maximum by far in some rows, and in others they don't.
    // The first warp sees nothing of the last stage, and comes back to a second pass.
    Problem steep = with_mask(one_head(70, 660, p.d, dtype), true);
    steep.scale = 1.75f;
    all.push_back({"some rows rise", "normal", steep});
    all.push_back({"neighbours", "normal", with_mask(one_head(70, 133, p.d, dtype), true), 0, 6});
    // Each query sees one key, whose weight is exactly 1 for the definition.
    Problem alone = one_head(128, 128, 64, dtype);
    alone.scale = 1000;
    all.push_back({"one key each", "normal", alone});
    // Of some tile a warp sees one key, its first or its last one, or all but one.
    for (const Index d : {64, 128}) {
      all.push_back({"one key more", "normal", with_mask(one_head(300, 301, d, dtype), true)});
      for (const Index left : {1, 30, 62})
        all.push_back({"window " + std::to_string(left),
                       "normal",
                       with_mask(one_head(300, 300, d, dtype), false, left, left == 1 ? 0 : -1)});
    }
  }
  return all;
}

/// Nothing, or the first element of O that isn't exactly `value`.
std::string other_than(float value, const Output& output) {
  const AnyTensor& O = output.O();
  for (Index i = 0; i < O.N; ++i)
    for (Index x = 0; x < O.d; ++x)
      if (const float got = O.at(0, 0, i, x); !(got == value))
        return "O[i=" + std::to_string(i) + " x=" + std::to_string(x) + "] is " +
               std::to_string(got) + " instead of exactly " + std::to_string(value) + "\n";
  return "";
}

/// A probe's inputs. Where its scores rise, they do so by `odd` powers of 2 in the odd rows.
Inputs inputs_of(const Probe& probe, float odd) {
  Inputs inputs = make_inputs(probe.problem, probe.pattern, kSeed);
  if (probe.all != 0)
    for (const AnyTensor& X : {inputs.Q.view(), inputs.K.view(), inputs.V.view()})
      for (Index row = 0; row < X.N; ++row)
        for (Index x = 0; x < X.d; ++x) set(X, 0, 0, row, x, probe.all);
  if (probe.rise != 0)
    let_scores_rise(
        probe.problem, inputs.view(), [&](Index i) { return i % 2 ? odd : probe.rise; });
  return inputs;
}

/// Nothing, or the first even row whose bits aren't the same where scores rise by far in the odd rows.
std::string depends_on_neighbours(const Variant& variant, const Probe& probe) {
  const auto output = [&](float odd) {
    return run(variant, probe.problem, inputs_of(probe, odd).view());
  };
  try {
    const Output before = output(probe.rise), after = output(10 * probe.rise);
    for (Index i = 0; i < probe.problem.Nq; i += 2)
      if (!same_row(before, 0, i, after, 0, i, 0))
        return "row " + std::to_string(i) + " has other bits beside other rows\n";
  } catch (const std::runtime_error& found) {  // by the emulator
    return found.what();
  }
  return "";
}

struct Prepared {
  Probe probe;
  Inputs inputs;
  Expected expected;
};

/// Inputs and right answers, made once a type: mutants by the dozen run on them.
const std::vector<Prepared>& prepared(DType dtype, Size size, bool any_d) {
  static std::map<std::tuple<DType, Size, bool>, std::vector<Prepared>> all;
  std::vector<Prepared>& mine = all[{dtype, size, any_d}];
  if (mine.empty())
    for (const Probe& probe : probes(dtype, size, any_d)) {
      Inputs inputs = inputs_of(probe, probe.rise);
      Expected expected = expect(probe.problem, inputs.view());
      mine.push_back({probe, std::move(inputs), std::move(expected)});
    }
  return mine;
}

}  // namespace

std::vector<Failure> run_probes(const Variant& variant,
                                DType dtype,
                                const std::function<bool(const std::vector<Failure>&)>& enough) {
  std::vector<Failure> failures;
  for (const Prepared& each : prepared(dtype, size_for(variant), takes_d(variant, 40))) {
    const Problem& p = each.probe.problem;
    if (!takes_d(variant, p.d)) continue;
    std::string failure = check(variant, p, each.inputs.view(), each.expected);
    if (failure.empty() && each.probe.all != 0)
      failure = other_than(each.probe.all, run(variant, p, each.inputs.view()));
    if (failure.empty() && each.probe.rise != 0)
      failure = depends_on_neighbours(variant, each.probe);
    if (failure.empty()) continue;
    failures.push_back({each.probe.name, failure});
    if (enough && enough(failures)) break;
  }
  return failures;
}

}  // namespace fa
