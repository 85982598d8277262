#pragma once

#include "common/attention/cost.hpp"
#include "common/attention/view.hpp"

namespace stage2 {

/// Attention of one head in one pass over the keys: O = softmax(scale · Q Kᵀ + mask) V.
///
/// Q [Nq, d], K and V [Nkv, d] are read, O [Nq, d] and LSE [Nq] (natural log) are written in full.
/// T is float, fa::float16 or fa::bfloat16; arithmetic is float32. A query that sees no key gets
/// O = 0 and LSE = −inf; what the mask hides is never read. O is divided by l at the end, so
/// Σ exp(s − m)·|v| must stay below float32's largest number, 3.4e38.
/// Source: Milakov and Gimelshein 2018, algorithm 3; FlashAttention-2 (Dao 2023), section 2.3.1.
template <class T>
void attention(fa::Matrix<const T> Q,  // [Nq, d]
               fa::Matrix<const T> K,  // [Nkv, d]
               fa::Matrix<const T> V,  // [Nkv, d]
               fa::Matrix<T> O,        // [Nq, d]
               float* LSE,             // [Nq]
               float scale,            // usually 1/√d
               const fa::Mask& mask);  // which keys each query sees

/// One row of O. Every visible (query, key) pair reads a row of K and a row of V.
inline fa::Cost cost(const fa::HeadShape& head) {
  const double row_bytes = double(head.d * head.element_bytes);
  return {4 * double(head.d),
          fa::unavoidable_bytes(head) + 2 * row_bytes * fa::key_rows_read(head, 1)};
}

}  // namespace stage2
