// Step @FA_STEP@ of stage 5, seen from outside. Generated from
// stage5_mma_pipeline/attention.in.hpp.
#pragma once

#include "common/attention/cost.hpp"
#include "common/attention/view.hpp"
#include "common/cuda/target.hpp"

namespace stage5::@FA_STEP_NAMESPACE@ {
inline namespace FA_TARGET {

/// Attention of all heads and batch items on a GPU's tensor cores, or in the emulator:
/// O = softmax(scale · Q Kᵀ + mask) V, by @FA_STEP_FILE@.
///
/// Q [B, Hq, Nq, d], K and V [B, Hkv, Nkv, d] are read, O [B, Hq, Nq, d] and LSE [B, Hq, Nq]
/// (natural log) are written in full; all lie in the device's memory. T is fa::float16 or
/// fa::bfloat16; P is rounded to it, scores, m, l and O are float32 until O is stored. A query
/// that sees no key gets O = 0 and LSE = −inf. As in stages 3 and 4, what is hidden from every
/// query of a tile is never read (with TMA, up to 127 keys behind them are) and a key hidden from
/// some of them must have a finite V. Σ exp(s − m)·|v| must stay below 2e31: before the division
/// by l, steps with an optimistic maximum may hold 2^24 times as much, in float32. Throws Refused,
/// naming it, for what the kernel can't do: float32, d other than
/// @FA_DIMENSIONS@, more than 2^28 queries or keys a head,
/// 2^31 blocks and more.
/// Doesn't wait for the GPU. Source: FlashAttention-2 (Dao 2023), algorithm 1.
template <class T>
void attention(fa::Tensor<const T> Q,  // [B, Hq, Nq, d]
               fa::Tensor<const T> K,  // [B, Hkv, Nkv, d]
               fa::Tensor<const T> V,  // [B, Hkv, Nkv, d]
               fa::Tensor<T> O,        // [B, Hq, Nq, d]
               float* LSE,             // [B, Hq, Nq]
               float scale,            // usually 1/√d
               const fa::Mask& mask);  // which keys each query sees

/// Does the step's own kernel take tensors that lie like this? Steps from 3 on move 16 bytes at a
/// time, so d must be a multiple of 8 and every row begin at a multiple of 16 bytes. Elsewhere
/// attention() runs step 2's kernel, which moves single elements.
template <class T>
bool takes(fa::Tensor<const T> Q, fa::Tensor<const T> K, fa::Tensor<const T> V, fa::Tensor<T> O);

/// Does it take this head dimension?
constexpr bool takes_d(fa::Index d) { return @FA_TAKES_D@; }

/// Queries by keys of the kernel that a head dimension gets, with rows that follow each other.
fa::Tile default_tile(fa::Index d);

/// Rows of K (and of V) that it reads at a time: 1, or with TMA all keys of a stage.
fa::Index rows_at_a_time(fa::Index d);

}  // namespace FA_TARGET

/// No memory beside Q, K, V, O and LSE. Every tile of queries reads each row of K and V that one of
/// its queries sees once, if rows need no second pass.
inline fa::Cost cost(const fa::HeadShape& head) {
  const double row_bytes = double(head.d * head.element_bytes);
  return {0,
          fa::unavoidable_bytes(head) + 2 * row_bytes *
                                            fa::key_rows_read(head,
                                                              default_tile(head.d).Br,
                                                              rows_at_a_time(head.d))};
}

}  // namespace stage5::@FA_STEP_NAMESPACE@
