// Step 3: copies that pass the registers by. cp.async brings 16 bytes at a time from global to
// shared memory while the warps compute; V is under way during Q Kᵀ.
//
// Costs: as step 2, with fewer instructions for the copies. Rows must begin at 16 bytes.
// Look first at load_tile, then at which wait belongs to which copy.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step3 {
inline namespace FA_TARGET {
using namespace fa;

constexpr int kRows = 16, kWarps = 4, kThreads = 32 * kWarps;
constexpr int Br = kRows * kWarps, Bc = 64;
constexpr int R = kRows / 8, W = kRows / 16;  // a thread has R rows, a warp W pieces of 16

template <int D>
constexpr std::size_t kSharedBytes = 2 * D*(Br + 2 * Bc);

/// Where column x of row i lies: pieces of 8 columns change places within their row, in another way
/// in each of 8 neighbouring rows.
template <int D, class T>
__device__ Shared<T> at(SharedTile<T, D> tile, int i, int x) {
  return tile[i] + (x ^ (i & 7) * 8);
}

/// Starts copying rows [first, last) of M, 8 columns at a time, as one group of copies. Rows and
/// columns that M doesn't have become 0: what lies there may be NaN, and 0 · NaN is NaN.
template <int rows, int D, class T>
__device__ void load_tile(SharedTile<T, D> tile,
                          const GlobalMatrix<const T>& M,
                          Index first,
                          Index last) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 8;  // this thread's first 8 columns
#pragma unroll 2  // the addresses of more would take registers that are needed elsewhere
  for (int i = 0; i < rows; i += kThreads / 8)
#pragma unroll
    for (int x = 0; x < D; x += 64) {
      const int bytes = first + row + i < last && column + x < M.cols ? 16 : 0;
      cp_async_16(at(tile + i, row, column) + x, M[first + row + i] + column + x, bytes);
    }
  cp_async_commit();
}

/// Grid: one block a tile of queries, Nq/Br · Hq · B in x alone (y and z end at 65,535).
/// Block: 4 warps. Shared memory: Q, K and V [64, D] in T: 24, 48 KiB for D = 64, 128.
template <class T, int D>
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
  const SharedTile<T, D> sK = memory.tile<T, D>("sK", Bc);
  const SharedTile<T, D> sV = memory.tile<T, D>("sV", Bc);

  // The block's: queries [i0, i1) of head h, batch item b; the last, which see most keys, first.
  const Index tiles = (Q.N + Br - 1) / Br;
  const Index h = blockIdx.x / tiles % Q.H, b = blockIdx.x / tiles / Q.H;
  const Index i0 = (tiles - 1 - blockIdx.x % tiles) * Br, i1 = min(i0 + Br, Q.N);
  const GlobalMatrix<const T> gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H));
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1 of both. w counts pieces below each other, n those
  // beside each other.
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = warp * kRows, row = row0 + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;

  //# region load_q
  load_tile<Br, D>(sQ, Q.head(b, h), i0, i1);
  //# endregion
  float m_rows[R], l_rows[R] = {}, o_tile[W][D / 8][4] = {};
  for (float& m : m_rows) m = -INFINITY;
  const KeyRange keys = mask.keys(i0, i1), keys_of_all = mask.keys_of_all(i0, i1);
  for (Index j0 = keys.first; j0 < keys.last; j0 += Bc) {
    const Index j1 = min(j0 + Bc, keys.last);
    //# region load_kv
    __syncthreads();  // nobody needs the tiles before any more
    load_tile<Bc, D>(sK, gK, j0, j1);
    load_tile<Bc, D>(sV, gV, j0, j1);
    cp_async_wait<1>();  // Q and K are there, V may be under way
    __syncthreads();     // everybody's part
    //# endregion
    //# region scores  S = Q Kᵀ
    float s_tile[W][Bc / 8][4] = {};
#pragma unroll
    for (int x = 0; x < D; x += 16) {
      std::uint32_t q[W][4];
      for (int w = 0; w < W; ++w) ldmatrix_x4(q[w], at(sQ, row0 + 16 * w + below, x + beside));
#pragma unroll
      for (int n = 0; n < Bc / 8; n += 2) {
        std::uint32_t k[2][2];
        ldmatrix_x4(k[0], k[1], at(sK, 8 * n + k_below, x + k_beside));
        for (int w = 0; w < W; ++w) {
          mma_m16n8k16<T>(s_tile[w][n], q[w], k[0], s_tile[w][n]);
          mma_m16n8k16<T>(s_tile[w][n + 1], q[w], k[1], s_tile[w][n + 1]);
        }
      }
    }
    //# endregion
    const bool all_visible = keys_of_all.first <= j0 && j0 + Bc <= keys_of_all.last;
#pragma unroll
    for (int r = 0; r < R; ++r) {  // rows g, g + 8, …
      float(&s_i)[Bc / 8][4] = s_tile[r / 2];
      float(&o_i)[D / 8][4] = o_tile[r / 2];
      float& m = m_rows[r];
      float& l = l_rows[r];
      const int i = row + 8 * r, e = r % 2 * 2;  // its elements in a piece: e and e + 1
      // Not to be fused with the subtraction of m below: s − m of the largest score must be 0.
      for (int n = 0; n < Bc / 8; ++n)
        for (int y = 0; y < 2; ++y) s_i[n][e + y] = __fmul_rn(s_i[n][e + y], scale);
      //# region mask  of row i, only the keys that query i sees; the others have P = 0
      for (int n = 0; n < Bc / 8 && !all_visible; ++n)
        for (int y = 0; y < 2; ++y)
          if (!mask.visible(i0 + i, j0 + 8 * n + 2 * t + y)) s_i[n][e + y] = -INFINITY;
      //# endregion
      //# region rowmax  m = max(m, max s), of 4 neighbouring threads that share the row
      const float m_old = m;
      for (int n = 0; n < Bc / 8; ++n) m = max(m, max(s_i[n][e], s_i[n][e + 1]));
      for (int other = 1; other < 4; other *= 2) m = max(m, __shfl_xor_sync(kAllLanes, m, other));
      //# endregion
      //# region rescale  what was summed under m_old is brought under m
      const float alpha = exp_minus(m_old, m);
      l *= alpha;
      for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
      //# endregion
      //# region exp  p = exp(s − m), in place
      for (int n = 0; n < Bc / 8; ++n)
        for (int y = 0; y < 2; ++y) s_i[n][e + y] = exp_minus(s_i[n][e + y], m);
      //# endregion
      //# region rowsum  l = l + Σ p, of this thread's keys: the 4 sums meet at the end
      for (int n = 0; n < Bc / 8; ++n) l += s_i[n][e] + s_i[n][e + 1];
      //# endregion
    }
    //# region pv  O = O + P V
    cp_async_wait<0>();
    __syncthreads();  // now V too
#pragma unroll
    for (int k0 = 0; k0 < Bc; k0 += 16) {
      std::uint32_t p[W][4];
      for (int w = 0; w < W; ++w) {
        for (int a = 0; a < 4; ++a) {
          // What the scores' product left in this thread is what this product takes from it.
          const float* s = &s_tile[w][k0 / 8 + a / 2][a % 2 * 2];
          p[w][a] = round_pair<T>(s[0], s[1]);
        }
      }
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        std::uint32_t v[2][2];
        ldmatrix_x4_trans(v[0], v[1], at(sV, k0 + below, 8 * n + beside));
        for (int w = 0; w < W; ++w)
          for (int y = 0; y < 2; ++y)
            mma_m16n8k16<T>(o_tile[w][n + y], p[w], v[y], o_tile[w][n + y]);
      }
    }
    //# endregion
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const Index i = i0 + row + 8 * r;
    const int e = r % 2 * 2;
    float(&o_i)[D / 8][4] = o_tile[r / 2];
    float m = m_rows[r], l = l_rows[r];
    for (int other = 1; other < 4; other *= 2) l += __shfl_xor_sync(kAllLanes, l, other);
    if (i >= i1) continue;
    //# region finish  O = o / l, LSE = m + log l; a query that sees no key has O = 0
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (int n = 0; n < D / 8; ++n) o_i[n][e] /= divisor, o_i[n][e + 1] /= divisor;
    if (t == 0) LSE[(b * Q.H + h) * Q.N + i] = m + logf(l);
    //# endregion
    //# region store
    for (int n = 0; n < D / 8; ++n)
      for (int y = 0; y < 2; ++y)
        if (8 * n + 2 * t + y < O.d) O.head(b, h)[i][8 * n + 2 * t + y] = T(o_i[n][e + y]);
    //# endregion
  }
}

}  // namespace FA_TARGET
}  // namespace stage5::step3
