// The CPU stages: each with its default tile, and a tiled stage with others: tiles that divide
// nothing, a single query by a single key, tiles larger than the problem.
#include "tests/all_stages.hpp"

namespace fa {

const Suite& suite() {
  static const Suite cpu = [] {
    Suite made{Suite::On::cpu, {}};
    for (const Stage& stage : cpu_stages()) {
      made.variants.push_back({stage.name, stage});
      if (!stage.tiled) continue;
      for (const Tile tile : {Tile{16, 32}, Tile{48, 40}, Tile{1, 1}, Tile{64, 1000}})
        made.variants.push_back(
            {stage.name + ", tile " + std::to_string(tile.Br) + " x " + std::to_string(tile.Bc),
             stage,
             tile});
    }
    return made;
  }();
  return cpu;
}

}  // namespace fa
