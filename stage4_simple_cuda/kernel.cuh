// Stage 4: the same tiles on a GPU. A block of threads has one tile of queries, K and V come
// through shared memory a tile at a time, every thread keeps a patch of S and of O in registers.
//
// Costs, one head: 4·Nq·Nkv·d FLOP; K and V are read from global memory Nq/Br times; no scratch.
// Look first at which queries, keys and columns a thread owns, then at the three barriers.
#pragma once

#include "common/cuda/device.cuh"

namespace stage4 {
inline namespace FA_TARGET {

using namespace fa;

// A thread has 4 queries by Bc/8 keys of S, and these queries by D/8 columns of O; 8 neighbours
// share the 4 queries. So each number fetched from shared memory serves several multiply-adds.
constexpr int kQueries = 4, kAcross = 8;

/// Tile sizes for head dimensions up to D, so that all tiles fit into 64 KiB of shared memory.
template <int D>
struct TileOf {
  static constexpr int Br = D == 64 ? 64 : D == 128 ? 32 : 16;
  static constexpr int Bc = D == 256 ? 16 : 32;
  static constexpr int threads = Br / kQueries * kAcross;
  // Rows are a float longer than needed, so that the elements of a column lie in different banks.
  static constexpr std::size_t shared_bytes = tile_bytes<float, D + 1>(Br) +
                                              2 * tile_bytes<float, D + 1>(Bc) +
                                              tile_bytes<float, Bc + 1>(Br);
};

/// Rows [first, last) of M as float32, neighbouring threads taking neighbouring columns. Rows and
/// columns that M doesn't have are 0: what lies there may be NaN, and 0 · NaN is NaN.
template <int rows, int D, class T>
__device__ void load_tile(SharedTile<float, D + 1> tile,
                          const GlobalMatrix<const T>& M,
                          Index first,
                          Index last) {
#pragma unroll 4  // so that several loads are under way at a time
  for (int e = threadIdx.x; e < rows * D; e += TileOf<D>::threads) {
    const int i = e / D, x = e % D;
    tile[i][x] = first + i < last && x < M.cols ? M[first + i][x] : 0.0f;
  }
}

/// Grid: one block a tile of queries, Nq/Br · Hq · B in x alone (y and z end at 65,535).
/// Block: Br/4 · 8 threads: 128, 64, 32 for D = 64, 128, 256.
/// Shared memory: Q [Br, D], K and V [Bc, D], P [Br, Bc] in float32: 41, 53, 50 KiB.
template <class T, int D>
__global__ void __launch_bounds__(TileOf<D>::threads)
    attention_kernel(GlobalTensor<const T> Q,  // [B, Hq, Nq, d]
                     GlobalTensor<const T> K,  // [B, Hkv, Nkv, d]
                     GlobalTensor<const T> V,  // [B, Hkv, Nkv, d]
                     GlobalTensor<T> O,        // [B, Hq, Nq, d]
                     Global<float> LSE,        // [B, Hq, Nq]
                     float scale,              // usually 1/√d
                     Mask mask) {              // which keys each query sees
  constexpr int Br = TileOf<D>::Br, Bc = TileOf<D>::Bc;
  constexpr int keys_each = Bc / kAcross, columns_each = D / kAcross, apart = Br / kQueries;
  SharedMemory memory = shared_memory();
  const SharedTile<float, D + 1> sQ = memory.tile<float, D + 1>("sQ", Br);
  const SharedTile<float, D + 1> sK = memory.tile<float, D + 1>("sK", Bc);
  const SharedTile<float, D + 1> sV = memory.tile<float, D + 1>("sV", Bc);
  const SharedTile<float, Bc + 1> sP = memory.tile<float, Bc + 1>("sP", Br);

  // The block's: queries [i0, i1) of head h, batch item b; the last, which see most keys, first.
  const Index tiles = (Q.N + Br - 1) / Br;
  const Index h = blockIdx.x / tiles % Q.H, b = blockIdx.x / tiles / Q.H;
  const Index i0 = (tiles - 1 - blockIdx.x % tiles) * Br, i1 = min(i0 + Br, Q.N);
  const GlobalMatrix<const T> gK = K.head(b, h / (Q.H / K.H)), gV = V.head(b, h / (Q.H / K.H));
  // The thread's: queries ty, ty + apart, … of the tile, keys tx, tx + 8, … and columns likewise.
  const int tx = threadIdx.x % kAcross, ty = threadIdx.x / kAcross;

  //# region load_q
  load_tile<Br, D>(sQ, Q.head(b, h), i0, i1);
  //# endregion
  float m_rows[kQueries], l_rows[kQueries], o_tile[kQueries][columns_each] = {};
  for (int a = 0; a < kQueries; ++a) m_rows[a] = -INFINITY, l_rows[a] = 0;
  const KeyRange keys = mask.keys(i0, i1), keys_of_all = mask.keys_of_all(i0, i1);
  for (Index j0 = keys.first; j0 < keys.last; j0 += Bc) {
    const Index j1 = min(j0 + Bc, keys.last);
    //# region load_kv
    __syncthreads();  // nobody needs the tiles before any more
    load_tile<Bc, D>(sK, gK, j0, j1);
    load_tile<Bc, D>(sV, gV, j0, j1);
    __syncthreads();  // everybody's part is there
    //# endregion
    //# region scores  S = scale · Q Kᵀ
    float s_tile[kQueries][keys_each] = {};
    for (int x = 0; x < D; ++x) {
      float q[kQueries], k[keys_each];
      for (int a = 0; a < kQueries; ++a) q[a] = sQ[ty + a * apart][x];
      for (int c = 0; c < keys_each; ++c) k[c] = sK[tx + c * kAcross][x];
      for (int a = 0; a < kQueries; ++a)
        for (int c = 0; c < keys_each; ++c) s_tile[a][c] += q[a] * k[c];
    }
    //# endregion
    const bool all_visible = keys_of_all.first <= j0 && j0 + Bc <= keys_of_all.last;
#pragma unroll  // an array stays in registers if every index is known to the compiler
    for (int a = 0; a < kQueries; ++a) {
      float& m = m_rows[a];
      float& l = l_rows[a];
      float* s_i = s_tile[a];
      float* o_i = o_tile[a];
      // Not to be fused with the subtraction of m below: s − m of the largest score must be 0.
      for (int c = 0; c < keys_each; ++c) s_i[c] = __fmul_rn(s_i[c], scale);
      //# region mask  of row i, only the keys that query i sees; the others have P = 0
      for (int c = 0; c < keys_each && !all_visible; ++c)
        if (!mask.visible(i0 + ty + a * apart, j0 + tx + c * kAcross)) s_i[c] = -INFINITY;
      //# endregion
      //# region rowmax  m = max(m, max s), of 8 neighbouring threads that share the row
      const float m_old = m;
      for (int c = 0; c < keys_each; ++c) m = max(m, s_i[c]);
      for (int t = 1; t < kAcross; t *= 2) m = max(m, __shfl_xor_sync(kAllLanes, m, t));
      //# endregion
      //# region rescale  what was summed under m_old is brought under m
      const float alpha = exp_minus(m_old, m);
      l *= alpha;
      for (int x = 0; x < columns_each; ++x) o_i[x] *= alpha;
      //# endregion
      //# region exp  p = exp(s − m), in place
      for (int c = 0; c < keys_each; ++c) s_i[c] = exp_minus(s_i[c], m);
      //# endregion
      //# region rowsum  l = l + Σ p, of this thread's keys: the 8 sums meet at the end
      for (int c = 0; c < keys_each; ++c) l += s_i[c];
      //# endregion
    }
    //# region pv  O = O + P V
    for (int a = 0; a < kQueries; ++a)
      for (int c = 0; c < keys_each; ++c) sP[ty + a * apart][tx + c * kAcross] = s_tile[a][c];
    __syncwarp();  // the threads that share a row are in one warp
    for (int j = 0; j < Bc; ++j) {
      float p[kQueries], v[columns_each];
      for (int a = 0; a < kQueries; ++a) p[a] = sP[ty + a * apart][j];
      for (int x = 0; x < columns_each; ++x) v[x] = sV[j][tx + x * kAcross];
      for (int a = 0; a < kQueries; ++a)
        for (int x = 0; x < columns_each; ++x) o_tile[a][x] += p[a] * v[x];
    }
    //# endregion
  }
#pragma unroll
  for (int a = 0; a < kQueries; ++a) {
    const Index i = i0 + ty + a * apart;
    float m = m_rows[a], l = l_rows[a];
    float* o_i = o_tile[a];
    for (int t = 1; t < kAcross; t *= 2) l += __shfl_xor_sync(kAllLanes, l, t);
    if (i >= i1) continue;
    //# region finish  O = o / l, LSE = m + log l; a query that sees no key has O = 0
    const float divisor = mask.keys(i).empty() ? 1 : l;
    for (int x = 0; x < columns_each; ++x) o_i[x] /= divisor;
    if (tx == 0) LSE[(b * Q.H + h) * Q.N + i] = m + logf(l);
    //# endregion
    //# region store
    for (int x = 0; x < columns_each; ++x)
      if (tx + x * kAcross < O.d) O.head(b, h)[i][tx + x * kAcross] = T(o_i[x]);
    //# endregion
  }
}

}  // namespace FA_TARGET
}  // namespace stage4
