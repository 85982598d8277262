// Which blocks of S a tile of queries needs under a mask.
#pragma once

#include <vector>

#include "common/attention/mask.hpp"

namespace fa {

/// Scores of queries [i0, i1) and keys [j0, j1).
struct Block {
  Index i0 = 0;
  Index i1 = 0;
  Index j0 = 0;
  Index j1 = 0;
  bool whole = false;  // every query sees every key, and j1 − j0 is a multiple of `unit`
};

/// A tile of keys and the strips of queries that meet it.
struct KeyTile {
  Index j0 = 0;
  Index j1 = 0;
  std::vector<Block> strips;
};

/// The blocks of scores that queries [i0, i1) need, Bc keys at a time, in order of keys. The
/// queries come in strips of `strip`, each as wide as its queries see; tiles and strips in which
/// no query sees a key don't occur:
///
///      causal, one tile of queries
///      keys →
///      +--------+--------+
///      |1       |4       |7 |             1 to 6 are seen whole. What the others still hold
///      +--------+--------+--+--+          of hidden scores (half a strip's height, on average)
///      |2       |5       |8    |          is the mask region's business.
///      +--------+--------+-----+--+
///      |3       |6       |9       |
///      +--------+--------+--------+
///
/// A block's keys begin a multiple of `unit` behind its tile's.
inline std::vector<KeyTile> tile_walk(
    const Mask& mask, Index i0, Index i1, Index Bc, Index strip, Index unit) {
  std::vector<KeyTile> tiles;
  const KeyRange keys = mask.keys(i0, i1);
  for (Index j0 = keys.first; j0 < keys.last; j0 += Bc) {
    KeyTile tile{j0, std::min(j0 + Bc, keys.last), {}};
    for (Index i = i0; i < i1; i += strip) {
      const Index end = std::min(i + strip, i1);
      const KeyRange seen = intersection(mask.keys(i, end), {tile.j0, tile.j1});
      if (seen.empty()) continue;
      const Index first = seen.first - (seen.first - j0) % unit;
      const KeyRange all = mask.keys_of_all(i, end);
      const bool whole =
          all.first <= first && seen.last <= all.last && (seen.last - first) % unit == 0;
      tile.strips.push_back({i, end, first, seen.last, whole});
    }
    if (!tile.strips.empty()) tiles.push_back(std::move(tile));
  }
  return tiles;
}

}  // namespace fa
