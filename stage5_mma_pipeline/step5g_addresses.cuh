// Step 5g: addresses that the compiler knows. Where rows follow each other without gaps their
// distance is D, and everything in the loop is counted in 32 bits from the block's first key.
//
// Costs: as step 5f, with fewer integer instructions.
// Look first at which numbers were 64 bits wide and needn't be.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step5g {
inline namespace FA_TARGET {

using namespace fa;

/// Beyond 2^20 the rounding of c·m would no longer be small beside 1.
constexpr float kHuge = 1 << 20;
/// How far a score may pass m before m moves, in powers of 2.
constexpr float kSlack = 8;
constexpr int kRows = 32, kWarps = 4, kThreads = 32 * kWarps;
constexpr int Br = kRows * kWarps, Bc = 64;

template <int D>
constexpr std::size_t kSharedBytes = 2 * D*(Br + 4 * Bc);

/// Where column x of row i lies in its row: pieces of 8 columns change places, in another way in
/// each of 8 neighbouring rows.
__device__ inline int swizzled(int i, int x) { return x ^ (i & 7) * 8; }

template <int D, class T>
__device__ Shared<T> at(SharedTile<T, D> tile, int i, int x) {
  return tile[i] + swizzled(i, x);
}

/// Where this thread begins to copy a tile: 8 neighbouring threads copy 64 columns of a row.
__device__ inline int copy_row() { return threadIdx.x / 8; }
__device__ inline int copy_column() { return threadIdx.x % 8 * 8; }

/// Starts copying `there` rows of `columns`, as one group of copies; `from` is this thread's first
/// piece. Rows and columns that aren't there become 0: what lies there may be NaN, and 0 · NaN is
/// NaN.
template <int rows, int D, class T>
__device__ void load_tile(
    SharedTile<T, D> tile, Global<const T> from, Index stride, int there, int columns) {
  constexpr int at_once = kThreads / 8;  // rows: a multiple of 8, which swizzled() doesn't notice
#pragma unroll
  for (int i = 0; i < rows; i += at_once)
#pragma unroll
    for (int x = 0; x < D; x += 64) {
      const bool is_there = copy_row() + i < there && copy_column() + x < columns;
      const Shared<T> to = at(tile + i, copy_row(), copy_column() + x);
      cp_async_16(to, from + (i * stride + x), is_there ? 16 : 0);
    }
  cp_async_commit();
}

/// Grid: one block a tile of queries, Nq/Br · Hq · B in x alone (y and z end at 65,535).
/// Block: 4 warps. Shared memory: Q [128, D], two K and V [64, D] in T: 48, 96 KiB for D = 64, 128.
template <class T, int D, bool contiguous>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(GlobalTensor<const T> Q,  // [B, Hq, Nq, d]
                     GlobalTensor<const T> K,  // [B, Hkv, Nkv, d]
                     GlobalTensor<const T> V,  // [B, Hkv, Nkv, d]
                     GlobalTensor<T> O,        // [B, Hq, Nq, d]
                     Global<float> LSE,        // [B, Hq, Nq]
                     float scale,              // usually 1/√d
                     Mask mask) {              // which keys each query sees
  SharedMemory memory = shared_memory();
  const SharedTile<T, D> sQ = memory.tile<T, D>("sQ", Br);
  const SharedTile<T, D> sK_both = memory.tile<T, D>("sK", 2 * Bc);
  const SharedTile<T, D> sV_both = memory.tile<T, D>("sV", 2 * Bc);

  // The block's: queries [i0, i1) of head h, batch item b; the last, which see most keys, first.
  // In 32 bits: divisions of 64 are slow.
  const unsigned heads = static_cast<unsigned>(Q.H);
  const unsigned tiles = static_cast<unsigned>((Q.N + Br - 1) / Br);
  const Index h = blockIdx.x / tiles % heads, b = blockIdx.x / tiles / heads;
  const Index i0 = Index{tiles - 1 - blockIdx.x % tiles} * Br, i1 = min(i0 + Br, Q.N);
  const Index kv = static_cast<unsigned>(h) / (heads / static_cast<unsigned>(K.H));
  const GlobalMatrix<const T> gK = K.head(b, kv), gV = V.head(b, kv);
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1 of both. Two such pieces lie below each other.
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int row = warp * kRows + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int lane = threadIdx.x % 32, below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;

  // A scale of 0 becomes one too small to count, but large enough for −inf · c = −inf.
  const float c = max(fabsf(scale) * 1.44269504f, 1e-37f);

  //# region load_q
  const Index k_stride = contiguous ? D : K.row_stride, v_stride = contiguous ? D : V.row_stride;
  const int columns = contiguous ? D : static_cast<int>(Q.d);
  const Index q_stride = contiguous ? D : Q.row_stride;
  const Global<const T> gQ = Q.head(b, h)[i0] + (copy_row() * q_stride + copy_column());
  load_tile<Br, D>(sQ, gQ, q_stride, static_cast<int>(i1 - i0), columns);
  if (scale < 0) {  // then −Q has the scores that c wants
    cp_async_wait<0>();
    __syncthreads();
    for (int e = 2 * threadIdx.x; e < Br * D; e += 2 * kThreads)
      store_vector(sQ[e / D] + e % D, load_vector<std::uint32_t>(sQ[e / D] + e % D) ^ 0x80008000);
  }
  //# endregion
  float m_rows[4], l_tile[2][4] = {}, o_tile[2][D / 8][4] = {};
  for (float& m : m_rows) m = -INFINITY;
  const KeyRange keys = mask.keys(i0, i1);
  const BlockMask seen = mask.block(i0, i1);
  Global<const T> k_next = gK[keys.first] + (copy_row() * k_stride + copy_column());
  Global<const T> v_next = gV[keys.first] + (copy_row() * v_stride + copy_column());
  if (seen.count > 0) {
    load_tile<Bc, D>(sK_both, k_next, k_stride, seen.count, columns);
    load_tile<Bc, D>(sV_both, v_next, v_stride, seen.count, columns);
  }
  for (int j0 = 0; j0 < seen.count; j0 += Bc) {         // counted from keys.first
    const int here = j0 % (2 * Bc), there = Bc - here;  // the rows of both tiles that are in use
    const SharedTile<T, D> sK = sK_both + here, sV = sV_both + here;
    //# region load_kv
    cp_async_wait<0>();
    __syncthreads();  // everybody's part is there, and nobody needs the tile before any more
    k_next += Bc * k_stride, v_next += Bc * v_stride;
    if (const int left = seen.count - j0 - Bc; left > 0) {
      load_tile<Bc, D>(sK_both + there, k_next, k_stride, left, columns);
      load_tile<Bc, D>(sV_both + there, v_next, v_stride, left, columns);
    }
    //# endregion
    const BlockMask tile = seen.from_key(j0);
    if (tile.last(warp * kRows + kRows - 1) <= 0 || tile.first(warp * kRows) >= Bc) continue;
    //# region scores  S = Q Kᵀ
    float s_tile[2][Bc / 8][4] = {};
#pragma unroll
    for (int x = 0; x < D; x += 16) {
      std::uint32_t q[2][4], k[2][2];
      ldmatrix_x4(q[0], at(sQ, warp * kRows + below, x + beside));
      ldmatrix_x4(q[1], at(sQ, warp * kRows + 16 + below, x + beside));
#pragma unroll
      for (int n = 0; n < Bc / 8; n += 2) {
        ldmatrix_x4(k[0], k[1], at(sK, 8 * n + k_below, x + k_beside));
        for (int w = 0; w < 2; ++w) {
          mma_m16n8k16<T>(s_tile[w][n], q[w], k[0], s_tile[w][n]);
          mma_m16n8k16<T>(s_tile[w][n + 1], q[w], k[1], s_tile[w][n + 1]);
        }
      }
    }
    //# endregion
    float m_tile[4];
    bool grew = false;
    const bool all_visible = tile.first(Br - 1) == 0 && tile.last(0) >= Bc;
#pragma unroll
    for (int r = 0; r < 4; ++r) {  // rows g, g + 8, g + 16, g + 24
      float(&s_i)[Bc / 8][4] = s_tile[r / 2];
      const int i = row + 8 * r, e = r % 2 * 2;  // its elements in a piece: e and e + 1
      //# region mask  of row i, only the keys that query i sees; the others have P = 0
      if (!all_visible) {
        const int first = tile.first(i), last = tile.last(i);
        for (int n = 0; n < Bc / 8; ++n)
          for (int y = 0; y < 2; ++y)
            if (const int j = 8 * n + 2 * t + y; j < first || j >= last) s_i[n][e + y] = -INFINITY;
      }
      //# endregion
      //# region rowmax  has a score of this thread passed m by so much that m must move?
      float largest = -INFINITY;
      for (int n = 0; n < Bc / 8; ++n) largest = max(largest, max(s_i[n][e], s_i[n][e + 1]));
      grew |= (largest - m_rows[r]) * c > kSlack;
      m_tile[r] = largest;
      //# endregion
    }
    if (__any_sync(kAllLanes, grew)) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float(&o_i)[D / 8][4] = o_tile[r / 2];
        float& m = m_rows[r];
        const int e = r % 2 * 2;
        //# region rescale  what was summed under m_old is brought under m
        const float m_old = m;
        m = max(m, m_tile[r]);
        for (int other = 1; other < 4; other *= 2) m = max(m, __shfl_xor_sync(kAllLanes, m, other));
        if ((m - m_old) * c <= kSlack) m = m_old;  // no score of this row passed it
        const float alpha = m_old == -INFINITY ? 0 : exp2_approx((m_old - m) * c);
        l_tile[r / 2][e] *= alpha;
        for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
        //# endregion
      }
    }
    float mc_rows[4], largest_mc = 0;
    for (int r = 0; r < 4; ++r) {
      mc_rows[r] = m_rows[r] == -INFINITY ? 0 : m_rows[r] * c;
      largest_mc = max(largest_mc, fabsf(mc_rows[r]));
    }
    if (largest_mc > kHuge) {  // then 2^(c (s − m)), where 2^(c s − c m) could be anything
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float m = m_rows[r] == -INFINITY ? 0 : m_rows[r];
        for (float(&s)[4] : s_tile[r / 2]) s[r % 2 * 2] -= m, s[r % 2 * 2 + 1] -= m;
        mc_rows[r] = 0;
      }
    }
    //# region pv  O = O + P V
    const std::uint32_t ones[2] = {round_pair<T>(1, 1), round_pair<T>(1, 1)};
#pragma unroll
    for (int j = 0; j < Bc; j += 16) {
      std::uint32_t p[2][4];
      for (int w = 0; w < 2; ++w) {
        // What the scores' product left in this thread is what this product takes from it.
        for (int a = 0; a < 4; ++a) {
          //# region exp  p = 2^(c s − c m)
          const float* s = &s_tile[w][j / 8 + a / 2][a % 2 * 2];
          const float mc = mc_rows[2 * w + a % 2];
          p[w][a] = round_pair<T>(exp2_approx(__fmaf_rn(s[0], c, -mc)),
                                  exp2_approx(__fmaf_rn(s[1], c, -mc)));
          //# endregion
        }
        //# region rowsum  l = l + P · 1, in each of the 8 columns
        mma_m16n8k16<T>(l_tile[w], p[w], ones, l_tile[w]);
        //# endregion
      }
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        std::uint32_t v[2][2];
        ldmatrix_x4_trans(v[0], v[1], at(sV, j + below, 8 * n + beside));
        for (int w = 0; w < 2; ++w) {
          mma_m16n8k16<T>(o_tile[w][n], p[w], v[0], o_tile[w][n]);
          mma_m16n8k16<T>(o_tile[w][n + 1], p[w], v[1], o_tile[w][n + 1]);
        }
      }
    }
    //# endregion
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const Index i = i0 + row + 8 * r;
    const int e = r % 2 * 2;
    float(&o_i)[D / 8][4] = o_tile[r / 2];
    const float m = m_rows[r], l = l_tile[r / 2][e];
    if (i >= i1) continue;
    //# region finish  O = o / l, LSE = scale · m + log l; a query that sees no key has O = 0
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (int n = 0; n < D / 8; ++n) o_i[n][e] /= divisor, o_i[n][e + 1] /= divisor;
    if (t == 0) LSE[(b * Q.H + h) * Q.N + i] = m * (c * 0.693147181f) + logf(l);
    //# endregion
    //# region store
    for (int n = 0; n < D / 8; ++n)
      for (int y = 0; y < 2; ++y)
        if (8 * n + 2 * t + y < O.d) O.head(b, h)[i][8 * n + 2 * t + y] = T(o_i[n][e + y]);
    //# endregion
  }
}

}  // namespace FA_TARGET
}  // namespace stage5::step5g
