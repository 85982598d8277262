// Step 5g: addresses that the compiler knows. Each thread keeps a pointer to what it copies next;
// where rows follow each other without gaps, all it copies lies at constant distances from there.
//
// Costs: as step 5f, with fewer integer instructions.
// Look first at what the compiler can't know where rows have gaps between them.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step5g {
inline namespace FA_TARGET {
using namespace fa;

/// Beyond 2^20 the rounding of c·m would no longer be small beside 1.
constexpr float kHuge = 1 << 20;
constexpr float kSlack = 8;  // how far a score may pass m before m moves, in powers of 2
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

/// Starts copying `there` rows of `columns`, as one group of copies; `from` is this thread's first
/// piece. Rows and columns that aren't there become 0: those may be NaN, and 0 · NaN is NaN.
template <int rows, int D, class T>
__device__ void load_tile(
    SharedTile<T, D> tile, Global<const T> from, int stride, int there, int columns) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 8;  // this thread's first 8 columns
#pragma unroll
  for (int i = 0; i < rows; i += kThreads / 8)
#pragma unroll
    for (int x = 0; x < D; x += 64) {
      const bool is_there = row + i < there && column + x < columns;
      cp_async_16(at(tile + i, row, column) + x, from + (i * stride + x), is_there ? 16 : 0);
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
  const Index tiles = (Q.N + Br - 1) / Br;
  const Index h = blockIdx.x / tiles % Q.H, b = blockIdx.x / tiles / Q.H;
  const Index i0 = (tiles - 1 - blockIdx.x % tiles) * Br, i1 = min(i0 + Br, Q.N);
  const GlobalMatrix<const T> gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H));
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1. w counts pieces below each other, n those beside.
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);  // the compiler sees: one a warp
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = warp * kRows, row = row0 + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;
  const int copy_row = threadIdx.x / 8, copy_column = threadIdx.x % 8 * 8;  // where it copies
  const auto stride = [](const auto& X) { return contiguous ? D : static_cast<int>(X.row_stride); };
  const int k_stride = stride(K), v_stride = stride(V);
  const int columns = contiguous ? D : static_cast<int>(Q.d);

  // A scale of 0 becomes one too small to count, but large enough for −inf · size = −inf.
  const float size = max(fabsf(scale), 1e-44f), c = size * 1.44269504f;

  //# region load_q
  const Global<const T> gQ = Q.head(b, h)[i0] + (copy_row * stride(Q) + copy_column);
  load_tile<Br, D>(sQ, gQ, stride(Q), static_cast<int>(i1 - i0), columns);
  if (scale < 0) {  // then −Q has the scores that c wants
    cp_async_wait<0>();
    __syncthreads();
    for (int e = threadIdx.x; e < Br * D / 2; e += kThreads) {
      const auto two = at(sQ, e / (D / 2), e % (D / 2) * 2);
      store_vector(two, load_vector<std::uint32_t>(two) ^ 0x80008000);
    }
  }
  //# endregion
  float m_rows[R], l_tile[W][4] = {}, o_tile[W][D / 8][4] = {};
  for (float& m : m_rows) m = -INFINITY;
  const KeyRange keys = mask.keys(i0, i1);
  const BlockMask seen = mask.block(i0, i1);
  Global<const T> k_next = gK[keys.first] + (copy_row * k_stride + copy_column);
  Global<const T> v_next = gV[keys.first] + (copy_row * v_stride + copy_column);
  if (seen.count > 0) {
    load_tile<Bc, D>(sK_both, k_next, k_stride, seen.count, columns);
    load_tile<Bc, D>(sV_both, v_next, v_stride, seen.count, columns);
  }
  int buffer = 0;
  for (int j0 = 0; j0 < seen.count; j0 += Bc, buffer ^= 1) {  // counted from keys.first
    const BlockMask tile = seen.from_key(j0);
    const SharedTile<T, D> sK = sK_both + buffer * Bc, sV = sV_both + buffer * Bc;
    //# region load_kv
    cp_async_wait<0>();
    __syncthreads();  // everybody's part is there, and nobody needs the one before any more
    k_next += Bc * k_stride, v_next += Bc * v_stride;
    if (const int left = seen.count - j0 - Bc; left > 0) {
      load_tile<Bc, D>(sK_both + (buffer ^ 1) * Bc, k_next, k_stride, left, columns);
      load_tile<Bc, D>(sV_both + (buffer ^ 1) * Bc, v_next, v_stride, left, columns);
    }
    //# endregion
    if (tile.last(row0 + kRows - 1) <= 0 || tile.first(row0) >= Bc) continue;
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
    float mc_rows[R];
    bool grew = false;
    const bool all_visible = tile.first(Br - 1) == 0 && tile.last(0) >= Bc;
#pragma unroll
    for (int r = 0; r < R; ++r) {  // rows g, g + 8, …
      float(&s_i)[Bc / 8][4] = s_tile[r / 2];
      const int i = row + 8 * r, e = r % 2 * 2;  // its elements in a piece: e and e + 1
      //# region mask  of row i, only the keys that query i sees; the others have P = 0
      if (!all_visible) {
        const int first = tile.first(i), last = tile.last(i);
        for (int n = 0; n < Bc / 8; ++n)
          for (int y = 0; y < 2; ++y)
            if (const int k = 8 * n + 2 * t + y; k < first || k >= last) s_i[n][e + y] = -INFINITY;
      }
      //# endregion
      //# region rowmax  has a score of this thread passed m by so much that m must move?
      float largest = m_rows[r];
      for (int n = 0; n < Bc / 8; ++n) largest = max(largest, max(s_i[n][e], s_i[n][e + 1]));
      mc_rows[r] = m_rows[r] * c;
      grew |= (largest - m_rows[r]) * c > kSlack || fabsf(mc_rows[r]) > kHuge;
      //# endregion
    }
    if (__any_sync(kAllLanes, grew)) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        float(&s_i)[Bc / 8][4] = s_tile[r / 2];
        float(&o_i)[D / 8][4] = o_tile[r / 2];
        float& m = m_rows[r];
        const int e = r % 2 * 2;
        //# region rescale  what was summed under m_old is brought under m
        const float m_old = m;
        for (int n = 0; n < Bc / 8; ++n) m = max(m, max(s_i[n][e], s_i[n][e + 1]));
        for (int other = 1; other < 4; other *= 2) m = max(m, __shfl_xor_sync(kAllLanes, m, other));
        if ((m - m_old) * c <= kSlack) m = m_old;  // no score of this row passed it
        const float alpha = m_old == -INFINITY ? 0 : exp2_approx((m_old - m) * c);
        l_tile[r / 2][e] *= alpha;
        for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
        //# endregion
        mc_rows[r] = m == -INFINITY ? 0 : m * c;
        if (fabsf(mc_rows[r]) > kHuge) {  // then 2^(c (s − m)): 2^(c s − c m) could be anything
          for (int n = 0; n < Bc / 8; ++n) s_i[n][e] -= m, s_i[n][e + 1] -= m;
          mc_rows[r] = 0;
        }
      }
    }
    //# region pv  O = O + P V
    const std::uint32_t ones[2] = {kOnes<T>, kOnes<T>};
#pragma unroll
    for (int k0 = 0; k0 < Bc; k0 += 16) {
      std::uint32_t p[W][4];
      for (int w = 0; w < W; ++w) {
        for (int a = 0; a < 4; ++a) {
          // What the scores' product left in this thread is what this product takes from it.
          const float* s = &s_tile[w][k0 / 8 + a / 2][a % 2 * 2];
          //# region exp  p = 2^(c s − c m)
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
    const float m = m_rows[r], l = l_tile[r / 2][e];
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
}  // namespace stage5::step5g
