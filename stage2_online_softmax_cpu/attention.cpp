// Stage 2: one pass over the keys. Nothing is written out; a running m, l and o take S's place.
//
// Costs, one head: 4·Nq·Nkv·d FLOP, and d more each time a maximum grows; 4·d bytes of memory.
// Look first at region rescale: what m, l and o mean after each key, and why it keeps them so.

#include "attention.hpp"

#include "common/attention/exp_minus.hpp"
#include "common/attention/instantiate.hpp"
#include "common/attention/scratch.hpp"

namespace stage2 {

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
  Scratch<float> o_row(1, d);

  for (Index i = 0; i < Nq; ++i) {
    //# region load_q
    const T* q_i = Q[i];
    //# endregion
    float m = -INFINITY, l = 0;
    float* o_i = o_row[0];
    for (Index x = 0; x < d; ++x) o_i[x] = 0;
    for (Index j = 0; j < Nkv; ++j) {
      //# region mask  a hidden key is passed over
      if (!mask.visible(i, j)) continue;
      //# endregion
      //# region scores  s = scale · q·k
      const T* k_j = K[j];
      float s = 0;
      for (Index x = 0; x < d; ++x) s += q_i[x] * k_j[x];
      s *= scale;
      //# endregion
      //# region rowmax  m = max(m, s)
      const float m_old = m;
      m = std::max(m, s);
      //# endregion
      //# region rescale  where the maximum grew, what was summed under m_old is brought under m
      if (m > m_old) {
        const float alpha = exp_minus(m_old, m);
        l *= alpha;
        for (Index x = 0; x < d; ++x) o_i[x] *= alpha;
      }
      //# endregion
      //# region exp  p = exp(s − m)
      const float p = exp_minus(s, m);
      //# endregion
      //# region rowsum  l = l + p
      l += p;
      //# endregion
      //# region pv  o = o + p v
      const T* v_j = V[j];
      for (Index x = 0; x < d; ++x) o_i[x] += p * v_j[x];
      //# endregion
    }
    //# region finish  O = o / l, LSE = m + log l; a query that sees no key has O = 0
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (Index x = 0; x < d; ++x) o_i[x] /= divisor;
    LSE[i] = m + std::log(l);
    //# endregion
    //# region store
    for (Index x = 0; x < d; ++x) O[i][x] = T(o_i[x]);
    //# endregion
  }
}

FA_INSTANTIATE_FOR_EVERY_TYPE(attention)

}  // namespace stage2
