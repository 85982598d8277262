// Stage 3: the same recurrence, a tile of Br queries and Bc keys at a time.
//
// Costs, one head: 4·Nq·Nkv·d FLOP; K, V are read Nq/Br times instead of Nq; 2·(Br + Bc)·d floats.
// Look first at regions rescale and finish: not a character differs from stage 2.

#include "attention.hpp"

#include "common/attention/instantiate.hpp"
#include "common/attention/strip.hpp"
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
  StripTile q_tile(Br, d), s_tile(kStrip, Bc), o_tile(Br, d);
  PanelTile k_tile(d, Bc), v_tile(Bc, d);
  Scratch<float> m_rows(1, round_up(Br, kLanes)), l_rows(1, Br);
  Scratch<float> o_row(1, d);
  float s_max[kStrip], p_sum[kStrip];

  for (Index i0 = 0; i0 < Nq; i0 += Br) {
    const Index i1 = std::min(i0 + Br, Nq);
    //# region load_q
    q_tile.load(Q, i0, i1);
    //# endregion
    o_tile.clear(i0, i1);
    std::fill_n(m_rows[0], m_rows.cols, -INFINITY);
    std::fill_n(l_rows[0], Br, 0.0f);
    for (const KeyTile& keys : tile_walk(mask, i0, i1, Bc, kStrip, kPanel)) {
      //# region load_kv
      k_tile.load_transposed(K, keys.j0, keys.j1);
      v_tile.load(V, keys.j0, keys.j1);
      //# endregion
      for (const Block& at : keys.strips) {
        //# region scores  S = scale · Q Kᵀ
        const Strip Qi = q_tile.strip(at.i0), Oi = o_tile.strip(at.i0);
        const Panels Kj = k_tile.columns(at.j0, at.j1), Vj = v_tile.rows(at.j0, at.j1);
        const Strip S = s_tile.product(scale, Qi, Kj);
        //# endregion
        //# region mask  a key that query i doesn't see scores −∞
        for (Index i = at.i0; i < at.i1 && !at.whole; ++i)
          S.row(i - at.i0).hide_all_but(intersection(mask.keys(i), {at.j0, at.j1}), at.j0);
        //# endregion
        row_max(S, s_max);
        for (Index i = at.i0; i < at.i1; ++i) {
          const StripRow o_i = Oi.row(i - at.i0);
          float& m = m_rows[0][i - i0];
          float& l = l_rows[0][i - i0];
          //# region rowmax  m = max(m, max s)
          const float m_old = m;
          m = std::max(m, s_max[i - at.i0]);
          //# endregion
          //# region rescale  where the maximum grew, what was summed under m_old is brought under m
          if (m > m_old) {
            const float alpha = exp_minus(m_old, m);
            l *= alpha;
            for (Index x = 0; x < d; ++x) o_i[x] *= alpha;
          }
          //# endregion
        }
        //# region exp  p = exp(s − m), in place, and their sum
        exp_minus_and_sum(S, m_rows[0] + (at.i0 - i0), p_sum);
        //# endregion
        //# region rowsum  l = l + Σ p
        for (Index i = at.i0; i < at.i1; ++i) l_rows[0][i - i0] += p_sum[i - at.i0];
        //# endregion
        //# region pv  O = O + P V
        Oi.add_product(1, S, Vj);
        //# endregion
      }
    }
    for (Index i = i0; i < i1; ++i) {
      const float m = m_rows[0][i - i0], l = l_rows[0][i - i0];
      float* o_i = o_row[0];
      o_tile.row(i).copy_to(o_i, d);
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
