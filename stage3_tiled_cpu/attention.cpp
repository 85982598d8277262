// Stage 3: the same recurrence, a tile of Br queries and Bc keys at a time.
//
// Costs, one head: 4·Nq·Nkv·d FLOP; K and V are read Nq/Br times instead of Nq; Br·(Bc + d) floats.
// Look first at regions rescale and finish: not a character differs from stage 2.

#include "attention.hpp"

#include "common/attention/eigen_tile.hpp"
#include "common/attention/exp_minus.hpp"
#include "common/attention/instantiate.hpp"
#include "common/attention/scratch.hpp"
#include "common/attention/tile_walk.hpp"

namespace stage3 {

using namespace fa;

template <class T>
void attention(Matrix<const T> Q,  // [Nq, d]
               Matrix<const T> K,  // [Nkv, d]
               Matrix<const T> V,  // [Nkv, d]
               Matrix<T> O,        // [Nq, d]
               float* LSE,         // [Nq]
               float scale,        // usually 1/√d
               const Mask& mask,   // which keys each query sees
               Tile tile) {        // Br, Bc
  const Index Nq = Q.rows, Nkv = K.rows, d = Q.cols;
  const Index Br = std::min(tile.Br, Nq), Bc = std::min(tile.Bc, Nkv);
  FloatTile<T> q_tile(Br, d), k_tile(Bc, d), v_tile(Bc, d);
  Scratch<float> s_tile(Br, Bc), o_tile(Br, d), m_rows(1, Br), l_rows(1, Br);

  for (Index i0 = 0; i0 < Nq; i0 += Br) {
    const Index i1 = std::min(i0 + Br, Nq);
    //# region load_q
    const auto Qi = q_tile.load(Q, i0, i1);
    auto Oi = eigen(o_tile.middle_rows(0, i1 - i0));
    //# endregion
    Oi.setZero();
    std::fill_n(m_rows[0], Br, -INFINITY);
    std::fill_n(l_rows[0], Br, 0.0f);
    for (const Block& at : tile_walk(mask, i0, i1, Bc)) {
      //# region load_kv
      const auto Kj = k_tile.load(K, at.j0, at.j1);
      const auto Vj = v_tile.load(V, at.j0, at.j1);
      //# endregion
      //# region scores  S = scale · Q Kᵀ
      auto S = eigen(s_tile).topLeftCorner(at.i1 - at.i0, at.j1 - at.j0);
      S.noalias() = scale * Qi.middleRows(at.i0 - i0, S.rows()) * Kj.transpose();
      //# endregion
      for (Index i = at.i0; i < at.i1; ++i) {
        float* s_i = s_tile[i - at.i0];
        float* o_i = o_tile[i - i0];
        float& m = m_rows[0][i - i0];
        float& l = l_rows[0][i - i0];
        //# region mask  only the keys [a, b) that query i sees have a weight; the others get 0
        const KeyRange seen = intersection(mask.keys(i), {at.j0, at.j1});
        const Index a = seen.first - at.j0, b = seen.last - at.j0;
        std::fill_n(s_i, a, 0.0f);
        std::fill(s_i + b, s_i + S.cols(), 0.0f);
        if (seen.empty()) continue;
        //# endregion
        //# region rowmax  m = max(m, max s)
        const float m_old = m;
        m = std::max(m, S.row(i - at.i0).segment(a, b - a).maxCoeff());
        //# endregion
        //# region rescale  where the maximum grew, what was summed under m_old is brought under m
        if (m > m_old) {
          const float alpha = exp_minus(m_old, m);
          l *= alpha;
          for (Index x = 0; x < d; ++x) o_i[x] *= alpha;
        }
        //# endregion
        //# region exp  p = exp(s − m), in place, and their sum
        const float p_sum = exp_minus_and_sum(s_i + a, b - a, m);
        //# endregion
        //# region rowsum  l = l + Σ p
        l += p_sum;
        //# endregion
      }
      //# region pv  O = O + P V
      Oi.middleRows(at.i0 - i0, S.rows()).noalias() += S * Vj;
      //# endregion
    }
    for (Index i = i0; i < i1; ++i) {
      const float m = m_rows[0][i - i0], l = l_rows[0][i - i0];
      float* o_i = o_tile[i - i0];
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
}

FA_INSTANTIATE_FOR_EVERY_TYPE(attention)

}  // namespace stage3
