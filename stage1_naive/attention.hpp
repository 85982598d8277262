#pragma once

#include "common/attention/cost.hpp"
#include "common/attention/view.hpp"

namespace stage1 {

/// Attention of one head, by the definition: O = softmax(scale · Q Kᵀ + mask) V.
///
/// Q [Nq, d], K and V [Nkv, d] are read, O [Nq, d] and LSE [Nq] (natural log) are written in full.
/// T is float, fa::float16 or fa::bfloat16; arithmetic is float32. A query that sees no key gets
/// O = 0 and LSE = −inf; what the mask hides is never read. Throws std::bad_alloc when S and P
/// don't fit in memory.
/// Source: FlashAttention (Dao et al. 2022), algorithm 0; softmax with the maximum subtracted as in
/// its section 3.1.
template <class T>
void attention(fa::Matrix<const T> Q,  // [Nq, d]
               fa::Matrix<const T> K,  // [Nkv, d]
               fa::Matrix<const T> V,  // [Nkv, d]
               fa::Matrix<T> O,        // [Nq, d]
               float* LSE,             // [Nq]
               float scale,            // usually 1/√d
               const fa::Mask& mask);  // which keys each query sees

/// S and P in full, l and one row of O. Every visible (query, key) pair reads a row of K and a row
/// of V; S and P are written once and read twice each, all in float32.
inline fa::Cost cost(const fa::HeadShape& head) {
  const double scores = double(head.Nq) * double(head.mask.Nkv);
  const double row_bytes = double(head.d * head.element_bytes);
  return {
      4 * (2 * scores + double(head.Nq + head.d)),
      fa::unavoidable_bytes(head) + 2 * row_bytes * fa::key_rows_read(head, 1) + 4 * 6 * scores};
}

}  // namespace stage1
