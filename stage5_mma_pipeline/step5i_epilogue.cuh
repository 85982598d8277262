// Step 5i: a cheap end. One reciprocal a row instead of a division an element, and O leaves through
// shared memory in pieces of 16 bytes instead of one by one.
//
// Costs: as step 5h; what a block does once weighs most where it has few tiles.
// Look first at why a warp need not wait for the others.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step5i {
inline namespace FA_TARGET {

using namespace fa;

/// Beyond 2^20 the rounding of c·m would no longer be small beside 1.
constexpr float kHuge = 1 << 20;
constexpr float kSlack = 8;  // how far a score may pass m before m moves, in powers of 2
constexpr int kRows = 32, kWarps = 4, kThreads = 32 * kWarps;
constexpr int Br = kRows * kWarps, Bc = 64;

template <int D>
constexpr std::size_t kSharedBytes = 2 * D*(Br + 4 * Bc);

/// Where column x of row i lies: pieces of 8 columns change places within their row, in another way
/// in each of 8 neighbouring rows.
template <int D, class T>
__device__ Shared<T> at(SharedTile<T, D> tile, int i, int x) {
  return tile[i] + (x ^ (i & 7) * 8);
}

/// Starts copying `count` rows of M, which begins at this thread's first 8 columns, as one group of
/// copies. Rows and columns that aren't there become 0: those may be NaN, and 0 · NaN is NaN.
template <int rows, int D, class T>
__device__ void load_tile(SharedTile<T, D> tile, const GlobalMatrix<const T>& M, int count) {
  const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 8;  // this thread's first 8 columns
#pragma unroll
  for (int i = 0; i < rows; i += kThreads / 8)
#pragma unroll
    for (int x = 0; x < D; x += 64) {
      const int bytes = row + i < count && column + x < static_cast<int>(M.cols) ? 16 : 0;
      cp_async_16(at(tile + i, row, column) + x, M[i] + x, bytes);
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
  const unsigned tiles = static_cast<unsigned>((Q.N + Br - 1) / Br);
  const unsigned heads = static_cast<unsigned>(Q.H), kv_heads = static_cast<unsigned>(K.H);
  const unsigned h = blockIdx.x / tiles % heads, b = blockIdx.x / tiles / heads;
  const unsigned kv = h / (heads / kv_heads);
  const Index i0 = Index{tiles - 1 - blockIdx.x % tiles} * Br, i1 = min(i0 + Br, Q.N);
  GlobalMatrix<const T> gQ = Q.head(b, h), gK = K.head(b, kv), gV = V.head(b, kv);
  if (contiguous) gQ.row_stride = gK.row_stride = gV.row_stride = gQ.cols = gK.cols = gV.cols = D;
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1 of both. w counts pieces below each other, of which the
  // warp's rows are kRows / 16, n those beside each other.
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int row = warp * kRows + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int lane = threadIdx.x % 32, below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;

  // A scale of 0 becomes one too small to count, but large enough for −inf · c = −inf.
  const float c = max(fabsf(scale) * 1.44269504f, 1e-37f);

  //# region load_q
  const int copy_row = threadIdx.x / 8, copy_column = threadIdx.x % 8 * 8;
  gQ.data = gQ[i0 + copy_row] + copy_column;
  load_tile<Br, D>(sQ, gQ, static_cast<int>(i1 - i0));
  if (scale < 0) {  // then −Q has the scores that c wants
    cp_async_wait<0>();
    __syncthreads();
    for (int e = 2 * threadIdx.x; e < Br * D; e += 2 * kThreads)
      store_vector(sQ[e / D] + e % D, load_vector<std::uint32_t>(sQ[e / D] + e % D) ^ 0x80008000);
  }
  //# endregion
  float m_rows[kRows / 8], l_tile[kRows / 16][4] = {}, o_tile[kRows / 16][D / 8][4] = {};
  for (float& m : m_rows) m = -INFINITY;
  const KeyRange keys = mask.keys(i0, i1);
  const BlockMask seen = mask.block(i0, i1);
  gK.data = gK[keys.first + copy_row] + copy_column;
  gV.data = gV[keys.first + copy_row] + copy_column;
  if (seen.count > 0) {
    load_tile<Bc, D>(sK_both, gK, seen.count);
    load_tile<Bc, D>(sV_both, gV, seen.count);
  }
  for (int j0 = 0; j0 < seen.count; j0 += Bc) {         // counted from keys.first
    const int here = j0 % (2 * Bc), there = Bc - here;  // the rows of both tiles that are in use
    const SharedTile<T, D> sK = sK_both + here, sV = sV_both + here;
    //# region load_kv
    cp_async_wait<0>();
    __syncthreads();  // everybody's part is there, and nobody needs the tile before any more
    gK.data += Bc * gK.row_stride, gV.data += Bc * gV.row_stride;
    if (const int left = seen.count - j0 - Bc; left > 0) {
      load_tile<Bc, D>(sK_both + there, gK, left);
      load_tile<Bc, D>(sV_both + there, gV, left);
    }
    //# endregion
    const BlockMask tile = seen.from_key(j0);
    if (tile.last(warp * kRows + kRows - 1) <= 0 || tile.first(warp * kRows) >= Bc) continue;
    //# region scores  S = Q Kᵀ
    float s_tile[kRows / 16][Bc / 8][4] = {};
#pragma unroll
    for (int x = 0; x < D; x += 16) {
      std::uint32_t q[kRows / 16][4], k[2][2];
      for (int w = 0; w < kRows / 16; ++w)
        ldmatrix_x4(q[w], at(sQ, warp * kRows + 16 * w + below, x + beside));
#pragma unroll
      for (int n = 0; n < Bc / 8; n += 2) {
        ldmatrix_x4(k[0], k[1], at(sK, 8 * n + k_below, x + k_beside));
        for (int w = 0; w < kRows / 16; ++w) {
          mma_m16n8k16<T>(s_tile[w][n], q[w], k[0], s_tile[w][n]);
          mma_m16n8k16<T>(s_tile[w][n + 1], q[w], k[1], s_tile[w][n + 1]);
        }
      }
    }
    //# endregion
    float m_tile[kRows / 8];
    bool grew = false;
    const bool all_visible = tile.first(Br - 1) == 0 && tile.last(0) >= Bc;
#pragma unroll
    for (int r = 0; r < kRows / 8; ++r) {  // rows g, g + 8, …
      float(&s_i)[Bc / 8][4] = s_tile[r / 2];
      float& largest = m_tile[r] = m_rows[r];
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
      for (int n = 0; n < Bc / 8; ++n) largest = max(largest, max(s_i[n][e], s_i[n][e + 1]));
      grew |= (largest - m_rows[r]) * c > kSlack;
      //# endregion
    }
    if (__any_sync(kAllLanes, grew)) {
#pragma unroll
      for (int r = 0; r < kRows / 8; ++r) {
        float(&o_i)[D / 8][4] = o_tile[r / 2];
        float& m = m_rows[r];
        const int e = r % 2 * 2;
        //# region rescale  what was summed under m_old is brought under m
        const float m_old = m;
        m = m_tile[r];
        for (int other = 1; other < 4; other *= 2) m = max(m, __shfl_xor_sync(kAllLanes, m, other));
        if ((m - m_old) * c <= kSlack) m = m_old;  // no score of this row passed it
        const float alpha = m_old == -INFINITY ? 0 : exp2_approx((m_old - m) * c);
        l_tile[r / 2][e] *= alpha;
        for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
        //# endregion
      }
    }
    float mc_rows[kRows / 8];
    bool huge = false;
    for (int r = 0; r < kRows / 8; ++r) {
      mc_rows[r] = m_rows[r] * c;
      huge |= fabsf(mc_rows[r]) > kHuge;  // or infinite, of a row that hasn't seen a key
    }
    if (huge) {
#pragma unroll
      for (int r = 0; r < kRows / 8; ++r) {
        float(&s_i)[Bc / 8][4] = s_tile[r / 2];
        const float m = m_rows[r] == -INFINITY ? 0 : m_rows[r];
        const int e = r % 2 * 2;
        if (!(fabsf(mc_rows[r]) > kHuge)) continue;  // what other rows see changes nothing here
        for (int n = 0; n < Bc / 8; ++n) s_i[n][e] -= m, s_i[n][e + 1] -= m;
        mc_rows[r] = 0;
      }
    }
    //# region pv  O = O + P V
    const std::uint32_t ones[2] = {round_pair<T>(1, 1), round_pair<T>(1, 1)};
#pragma unroll
    for (int j = 0; j < Bc; j += 16) {
      std::uint32_t p[kRows / 16][4];
      for (int w = 0; w < kRows / 16; ++w) {
        for (int a = 0; a < 4; ++a) {
          // What the scores' product left in this thread is what this product takes from it.
          const float* s = &s_tile[w][j / 8 + a / 2][a % 2 * 2];
          //# region exp  p = 2^(c s − c m); for huge scores 2^(c (s − m))
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
        for (int w = 0; w < kRows / 16; ++w) {
          mma_m16n8k16<T>(o_tile[w][n], p[w], v[0], o_tile[w][n]);
          mma_m16n8k16<T>(o_tile[w][n + 1], p[w], v[1], o_tile[w][n + 1]);
        }
      }
    }
    //# endregion
  }
  // O goes through the warp's own rows of sQ, which no other warp reads.
  if (seen.count == 0) {  // then nobody has waited for Q yet
    cp_async_wait<0>();
    __syncthreads();
  }
  __syncwarp();  // no lane reads Q any more
#pragma unroll
  for (int r = 0; r < kRows / 8; ++r) {
    const Index i = i0 + row + 8 * r;
    const int e = r % 2 * 2;
    float(&o_i)[D / 8][4] = o_tile[r / 2];
    const float m = m_rows[r], l = l_tile[r / 2][e];
    //# region finish  O = o / l, LSE = scale · m + log l; a query that sees no key has O = 0
    const float factor = seen.last(row + 8 * r) <= seen.first(row + 8 * r) ? 1 : 1 / l;
    for (int n = 0; n < D / 8; ++n) o_i[n][e] *= factor, o_i[n][e + 1] *= factor;
    if (t == 0 && i < i1) LSE[(b * Q.H + h) * Q.N + i] = m * (c * 0.693147181f) + logf(l);
    //# endregion
    for (int n = 0; n < D / 8; ++n)
      store_vector(at(sQ, row + 8 * r, 8 * n + 2 * t), round_pair<T>(o_i[n][e], o_i[n][e + 1]));
  }
  __syncwarp();
  //# region store  16 bytes a thread
  const Global<T> gO = O.head(b, h)[i0];
  for (int e = lane; e < kRows * D / 8; e += 32) {
    const int i = warp * kRows + e / (D / 8), x = e % (D / 8) * 8;
    if (i0 + i < i1 && x < O.d)
      store_vector(gO + (i * O.row_stride + x), load_vector<uint4>(at(sQ, i, x)));
  }
  //# endregion
}

}  // namespace FA_TARGET
}  // namespace stage5::step5i
