#pragma once

#include "common/attention/cost.hpp"
#include "common/attention/strip.hpp"
#include "common/attention/view.hpp"

namespace stage3 {

/// Attention of one head, Br queries by Bc keys at a time: O = softmax(scale · Q Kᵀ + mask) V.
///
/// Q [Nq, d], K and V [Nkv, d] are read, O [Nq, d] and LSE [Nq] (natural log) are written in full.
/// T is float, fa::float16 or fa::bfloat16; arithmetic is float32. A query that sees no key gets
/// O = 0 and LSE = −inf. What is hidden from every query of a tile is never read; a key hidden from
/// some of them still meets their weight 0, so its V must be finite (0 · NaN is NaN). As in stage
/// 2, Σ exp(s − m)·|v| must stay below 3.4e38. Tile sizes are at least 1.
/// Source: FlashAttention-2 (Dao 2023), algorithm 1.
template <class T>
void attention(fa::Matrix<const T> Q,  // [Nq, d]
               fa::Matrix<const T> K,  // [Nkv, d]
               fa::Matrix<const T> V,  // [Nkv, d]
               fa::Matrix<T> O,        // [Nq, d]
               float* LSE,             // [Nq]
               float scale,            // usually 1/√d
               const fa::Mask& mask,   // which keys each query sees
               fa::Tile tile);         // Br, Bc

/// For `queries` rows over all heads. Large tiles of queries pack K and V fewer times, small ones
/// are work for more cores: large ones are taken where they still make 32 tasks
/// (notes/03_tiled_cpu.md has the measurements).
inline fa::Tile default_tile(fa::Index queries) { return {queries >= 32 * 512 ? 512 : 256, 256}; }

/// Tiles of Q and O [Br, d], of K and V [Bc, d], a strip of S [kStrip, Bc], m and l [Br], a row of
/// O. Every tile of queries reads each row of K and V that one of its queries sees once.
inline fa::Cost cost(const fa::HeadShape& head) {
  using namespace fa;
  const Index Br = std::min(head.tile.Br, head.Nq), Bc = std::min(head.tile.Bc, head.mask.Nkv);
  const Index rows = round_up(Br, kLanes);
  const Index floats = 2 * StripTile::floats(Br, head.d) + StripTile::floats(kStrip, Bc) +
                       PanelTile::floats(head.d, Bc) + PanelTile::floats(Bc, head.d) + rows + Br +
                       head.d;
  const double row_bytes = double(head.d * head.element_bytes);
  return {4 * double(floats),
          unavoidable_bytes(head) + 2 * row_bytes * key_rows_read(head, head.tile.Br)};
}

}  // namespace stage3
