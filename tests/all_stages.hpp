// The stages under test. A stage joins here, by its declaration and by one line in a list; every test
// of tests/conformance then runs over it: a CPU stage in test_conformance, a CUDA stage in
// test_conformance_emulator and on a GPU in test_conformance_gpu.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "common/harness/stage.hpp"

namespace fa {

Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
Stage stage4_stage();

/// A stage, and how it is to run.
struct Variant {
  std::string name;  // "stage3_tiled_cpu, tile 16 x 32"
  Stage stage;
  Tile tile = {};  // 0: the stage's default
  Device device = Device::automatic;
  Index most_d = std::numeric_limits<Index>::max();  // larger head dimensions are to be refused
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
  return {
      {"stage4_simple_cuda" + where, stage4_stage(), {}, device, 256},
  };
}

/// What this program tests, chosen by which file of tests/suites it is linked with.
struct Suite {
  enum class On { cpu, emulator, gpu } on;
  std::vector<Variant> variants;
};
const Suite& suite();

inline const std::vector<Variant>& all_variants() { return suite().variants; }

}  // namespace fa
