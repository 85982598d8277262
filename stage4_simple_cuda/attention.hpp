#pragma once

#include "common/attention/cost.hpp"
#include "common/attention/view.hpp"
#include "common/cuda/target.hpp"

namespace stage4 {
inline namespace FA_TARGET {

/// Attention of all heads and batch items on a GPU, or in its emulator:
/// O = softmax(scale · Q Kᵀ + mask) V.
///
/// Q [B, Hq, Nq, d], K and V [B, Hkv, Nkv, d] are read, O [B, Hq, Nq, d] and LSE [B, Hq, Nq]
/// (natural log) are written in full; all lie in the device's memory. T is float, fa::float16 or
/// fa::bfloat16; arithmetic is float32. d is at most 256. A query that sees no key gets O = 0 and
/// LSE = −inf. As in stage 3, what is hidden from every query of a tile is never read, a key hidden
/// from some of them must have a finite V, and Σ exp(s − m)·|v| must stay below 3.4e38. Throws
/// Refused for what the kernel can't do; doesn't wait for the GPU.
/// Source: FlashAttention-2 (Dao 2023), algorithm 1.
template <class T>
void attention(fa::Tensor<const T> Q,  // [B, Hq, Nq, d]
               fa::Tensor<const T> K,  // [B, Hkv, Nkv, d]
               fa::Tensor<const T> V,  // [B, Hkv, Nkv, d]
               fa::Tensor<T> O,        // [B, Hq, Nq, d]
               float* LSE,             // [B, Hq, Nq]
               float scale,            // usually 1/√d
               const fa::Mask& mask);  // which keys each query sees

}  // namespace FA_TARGET

/// The tile that the kernel takes for head dimension d (kernel.cuh, TileOf).
inline fa::Tile default_tile(fa::Index d) {
  return d <= 64 ? fa::Tile{64, 32} : d <= 128 ? fa::Tile{32, 32} : fa::Tile{16, 16};
}

/// No memory beside Q, K, V, O and LSE. Every tile of queries reads each row of K and V that one of
/// its queries sees once.
inline fa::Cost cost(const fa::HeadShape& head) {
  const double row_bytes = double(head.d * head.element_bytes);
  return {0,
          fa::unavoidable_bytes(head) +
              2 * row_bytes * fa::key_rows_read(head, default_tile(head.d).Br)};
}

}  // namespace stage4
