// Step 5b: exp2 with the scale folded in. exp(scale · s − scale · m) = 2^(c s − c m) with
// c = scale · log2 e: one multiply-add and one instruction of the special function unit.
//
// Costs: as step 5a, with two instructions a weight.
// Look first at what becomes of huge scores.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step5b {
inline namespace FA_TARGET {
using namespace fa;

/// Beyond 2^10 the rounding of c·m could keep a weight of 1 from being 1, in 16 bits and in O.
constexpr float kHuge = 1 << 10;
constexpr int kRows = 32, kWarps = 4, kThreads = 32 * kWarps;
constexpr int Br = kRows * kWarps, Bc = 64;
constexpr int R = kRows / 8, W = kRows / 16;  // a thread has R rows, a warp W pieces of 16

template <int D>
constexpr std::size_t kSharedBytes = 2 * D*(Br + 4 * Bc);

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
/// Block: 4 warps. Shared memory: Q [128, D], two K and V [64, D] in T: 48, 96 KiB for D = 64, 128.
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
  const SharedTile<T, D> sK_both = memory.tile<T, D>("sK", 2 * Bc);
  const SharedTile<T, D> sV_both = memory.tile<T, D>("sV", 2 * Bc);

  // The block's: queries [i0, i1) of head h, batch item b; the last, which see most keys, first.
  const Index tiles = (Q.N + Br - 1) / Br;
  const Index h = blockIdx.x / tiles % Q.H, b = blockIdx.x / tiles / Q.H;
  const Index i0 = (tiles - 1 - blockIdx.x % tiles) * Br, i1 = min(i0 + Br, Q.N);
  const GlobalMatrix<const T> gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H));
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1. w counts pieces below each other, n those beside.
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = warp * kRows, row = row0 + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;

  // A scale of 0 becomes one too small to count, but large enough for −inf · size = −inf.
  const float size = max(fabsf(scale), 1e-44f), c = size * 1.44269504f;

  //# region load_q
  load_tile<Br, D>(sQ, Q.head(b, h), i0, i1);
  if (scale < 0) {  // then −Q has the scores that c wants
    cp_async_wait<0>();
    __syncthreads();
    for (int e = threadIdx.x; e < Br * D / 2; e += kThreads) {
      const auto two = at(sQ, e / (D / 2), e % (D / 2) * 2);
      store_vector(two, load_vector<std::uint32_t>(two) ^ 0x80008000);
    }
  }
  //# endregion
  float m_rows[R], l_rows[R] = {}, o_tile[W][D / 8][4] = {};
  for (float& m : m_rows) m = -INFINITY;
  const KeyRange keys = mask.keys(i0, i1), keys_of_all = mask.keys_of_all(i0, i1);
  if (!keys.empty()) {
    load_tile<Bc, D>(sK_both, gK, keys.first, keys.last);
    load_tile<Bc, D>(sV_both, gV, keys.first, keys.last);
  }
  int buffer = 0;
  for (Index j0 = keys.first; j0 < keys.last; j0 += Bc, buffer ^= 1) {
    const SharedTile<T, D> sK = sK_both + buffer * Bc, sV = sV_both + buffer * Bc;
    //# region load_kv
    cp_async_wait<0>();
    __syncthreads();  // everybody's part is there, and nobody needs the one before any more
    if (const Index next = j0 + Bc; next < keys.last) {
      load_tile<Bc, D>(sK_both + (buffer ^ 1) * Bc, gK, next, keys.last);
      load_tile<Bc, D>(sV_both + (buffer ^ 1) * Bc, gV, next, keys.last);
    }
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
        for (int w = 0; w < W; ++w)
          for (int y = 0; y < 2; ++y)
            mma_m16n8k16<T>(s_tile[w][n + y], q[w], k[y], s_tile[w][n + y]);
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
      const float alpha = m_old == -INFINITY ? 0 : exp2_approx((m_old - m) * c);
      l *= alpha;
      for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
      //# endregion
      //# region exp  p = 2^(c s − c m), in place; for huge scores 2^(c (s − m))
      float mc = m == -INFINITY ? 0 : m * c;
      if (fabsf(mc) > kHuge) {
        for (int n = 0; n < Bc / 8; ++n) s_i[n][e] -= m, s_i[n][e + 1] -= m;
        mc = 0;
      }
      for (int n = 0; n < Bc / 8; ++n)
        for (int y = 0; y < 2; ++y) s_i[n][e + y] = exp2_approx(__fmaf_rn(s_i[n][e + y], c, -mc));
      //# endregion
      //# region rowsum  l = l + Σ p, of this thread's keys: the 4 sums meet at the end
      for (int n = 0; n < Bc / 8; ++n) l += s_i[n][e] + s_i[n][e + 1];
      //# endregion
    }
    //# region pv  O = O + P V
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
    //# region finish  O = o / l, LSE = scale · m + log l; a query that sees no key has O = 0
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (int n = 0; n < D / 8; ++n) o_i[n][e] /= divisor, o_i[n][e + 1] /= divisor;
    if (t == 0) LSE[(b * Q.H + h) * Q.N + i] = m * size + logf(l);  // c is rounded
    //# endregion
    //# region store
    for (int n = 0; n < D / 8; ++n)
      for (int y = 0; y < 2; ++y)
        if (8 * n + 2 * t + y < O.d) O.head(b, h)[i][8 * n + 2 * t + y] = T(o_i[n][e + y]);
    //# endregion
  }
}

}  // namespace FA_TARGET
}  // namespace stage5::step5b
