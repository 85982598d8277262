// Stage 1: attention as its definition says, in three passes.
//
// Costs, one head: 4·Nq·Nkv·d FLOP; 8·Nq·Nkv bytes of extra memory for S and P.
// Look first at the three passes: each one needs all that the pass before has written.

#include "attention.hpp"

#include "common/attention/exp_minus.hpp"
#include "common/attention/instantiate.hpp"
#include "common/attention/scratch.hpp"

namespace stage1 {

using namespace fa;

template <class T>
void attention(Matrix<const T> Q,   // [Nq, d]
               Matrix<const T> K,   // [Nkv, d]
               Matrix<const T> V,   // [Nkv, d]
               Matrix<T> O,         // [Nq, d]
               float* LSE,          // [Nq]
               float scale,         // usually 1/√d
               const Mask& mask) {  // which keys each query sees
  const Index Nq = Q.rows, Nkv = K.rows, d = Q.cols;
  Scratch<float> S(Nq, Nkv), P(Nq, Nkv), l_rows(1, Nq), o_row(1, d);

  // Pass 1: S = scale · Q Kᵀ, and −inf where the mask hides the key.
  for (Index i = 0; i < Nq; ++i) {
    //# region load_q
    const T* q_i = Q[i];
    //# endregion
    for (Index j = 0; j < Nkv; ++j) {
      //# region mask  a hidden score is −inf
      S[i][j] = -INFINITY;
      if (!mask.visible(i, j)) continue;
      //# endregion
      //# region scores  s = scale · q·k
      const T* k_j = K[j];
      float s = 0;
      for (Index x = 0; x < d; ++x) s += q_i[x] * k_j[x];
      s *= scale;
      S[i][j] = s;
      //# endregion
    }
  }

  // Pass 2: P = exp(S − m) and its row sums l. Any m gives the same quotient P / l; the maximum
  // keeps exp in range, which in float32 ends at 88.7.
  for (Index i = 0; i < Nq; ++i) {
    float& l = l_rows[0][i];
    //# region rowmax  m = max s
    float m = -INFINITY;
    for (Index j = 0; j < Nkv; ++j) m = std::max(m, S[i][j]);
    //# endregion
    //# region exp  p = exp(s − m)
    for (Index j = 0; j < Nkv; ++j) P[i][j] = exp_minus(S[i][j], m);
    //# endregion
    //# region rowsum  l = Σ p
    l = 0;
    for (Index j = 0; j < Nkv; ++j) l += P[i][j];
    //# endregion
    LSE[i] = m + std::log(l);
  }

  // Pass 3: O = P V / l.
  for (Index i = 0; i < Nq; ++i) {
    const float l = l_rows[0][i];
    float* o_i = o_row[0];
    for (Index x = 0; x < d; ++x) o_i[x] = 0;
    for (Index j = 0; j < Nkv; ++j) {
      if (!mask.visible(i, j)) continue;
      //# region pv  o = Σ p v
      const T* v_j = V[j];
      for (Index x = 0; x < d; ++x) o_i[x] += P[i][j] * v_j[x];
      //# endregion
    }
    //# region finish  o = o / l, and 0 for a query that sees no key
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (Index x = 0; x < d; ++x) o_i[x] /= divisor;
    //# endregion
    //# region store
    for (Index x = 0; x < d; ++x) O[i][x] = T(o_i[x]);
    //# endregion
  }
}

FA_INSTANTIATE_FOR_EVERY_TYPE(attention)

}  // namespace stage1
