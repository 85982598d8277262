// The stages under test. A stage joins here, by its declaration and by one line in all_stages();
// every test of tests/conformance then runs over it.
#pragma once

#include <string>
#include <vector>

#include "common/harness/stage.hpp"

namespace fa {

Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();

inline std::vector<Stage> all_stages() {
  return {
      stage1_stage(),
      stage2_stage(),
      stage3_stage(),
  };
}

/// A stage and the tile sizes it is to take.
struct Variant {
  std::string name;  // "stage3_tiled_cpu, tile 16 x 32"
  Stage stage;
  Tile tile;  // 0: the stage's default
};

/// Every stage with its default tile, and a tiled stage with others: tiles that divide nothing,
/// a single query by a single key, tiles larger than the problem.
inline std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (const Stage& stage : all_stages()) {
    variants.push_back({stage.name, stage, {}});
    if (!stage.tiled) continue;
    for (const Tile tile : {Tile{16, 32}, Tile{48, 40}, Tile{1, 1}, Tile{64, 1000}})
      variants.push_back(
          {stage.name + ", tile " + std::to_string(tile.Br) + " x " + std::to_string(tile.Bc),
           stage,
           tile});
  }
  return variants;
}

}  // namespace fa
