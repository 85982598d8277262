// Step 5p: tiles by head dimension, up to d = 256. Where the O of 32 queries wouldn't fit into a
// warp's registers, it has 16; rows of d = 32 and 96 fill half a page, and nothing copies the rest.
//
// Costs: as step 5o up to d = 128; beyond, K and V come once for 64 queries, not for 128.
// Look first at the constants, then at which of them each array's size depends on.
#pragma once

#include "common/cuda/device.cuh"

namespace stage5::step5p {
inline namespace FA_TARGET {
using namespace fa;

/// Beyond 2^20 the rounding of c·m would no longer be small beside 1.
constexpr float kHuge = 1 << 20;
/// Where l is more, scores may have passed m by more than P has room for: 2^16 in float16.
constexpr float kMostL = 1 << 24;
constexpr int kWarps = 4, kThreads = 32 * kWarps;
template <int D>
struct Shape {
  static constexpr int kRows = D > 128 ? 16 : 32;      // queries of a warp
  static constexpr int Br = kWarps * kRows;            // and of the block
  static constexpr int Bc = D > 128 ? 32 : 64;         // keys whose scores are in registers
  static constexpr int kStage = D > 64 ? Bc : 2 * Bc;  // keys that arrive together
  static constexpr bool kKeepQ = D <= 64;              // Q's fragments stay in registers
  static constexpr int kPages = (D + 63) / 64;         // of 64 columns
  static constexpr int kBlocks = D < 64 ? 2 : 0;       // an SM has room for; 0: not said
};
template <int D>
constexpr std::size_t kSharedBytes =
    128 * Shape<D>::kPages*(Shape<D>::Br + 4 * Shape<D>::kStage) + Shape<D>::Br * 16;

/// Starts copying `there` rows of `columns`, as one group of copies; `from` is this thread's first
/// piece. Rows and columns that aren't there become 0: those may be NaN, and 0 · NaN is NaN.
template <int rows, int D, class T>
__device__ void load_tile(
    Place<T, rows> to, Global<const T> from, int stride, int there, int columns) {
  const int row = thread_index() / 8, column = thread_index() % 8 * 8;  // 8 columns from there on
#pragma unroll
  for (int i = 0; i < rows; i += kThreads / 8)
#pragma unroll
    for (int x = 0; x < D; x += 64) {
      const bool is_there = row + i < there && column + x < columns;
      if (D % 64 == 0 || column + x < D)
        cp_async_16(to.at(i, x), from + (i * stride + x), is_there ? 16 : 0);
    }
  cp_async_commit();
}

/// Grid: one block a tile of queries, Nq/Br · Hq · B in x alone (y and z end at 65,535).
/// Block: 4 warps. Shared memory: Q, two stages of K and V in T, m: 82, 98 KiB for D = 64, 128.
template <class T, int D, bool contiguous>
__global__ void __launch_bounds__(kThreads, Shape<D>::kBlocks)
    attention_kernel(GlobalTensor<const T> Q,  // [B, Hq, Nq, d]
                     GlobalTensor<const T> K,  // [B, Hkv, Nkv, d]
                     GlobalTensor<const T> V,  // [B, Hkv, Nkv, d]
                     GlobalTensor<T> O,        // [B, Hq, Nq, d]
                     Global<float> LSE,        // [B, Hq, Nq]
                     float scale,              // usually 1/√d
                     Mask mask) {              // which keys each query sees
  using S = Shape<D>;
  constexpr int kRows = S::kRows, Br = S::Br, Bc = S::Bc, kStage = S::kStage, kPages = S::kPages;
  constexpr int R = kRows / 8, W = kRows / 16;  // a thread has R rows, a warp W pieces of 16
  constexpr bool kKeepQ = S::kKeepQ;
  SharedMemory memory = shared_memory();
  const SharedTile<T, 64> sQ = memory.tile<T, 64>("sQ", kPages * Br);
  const SharedTile<T, 64> sK = memory.tile<T, 64>("sK", 2 * kPages * kStage);
  const SharedTile<T, 64> sV = memory.tile<T, 64>("sV", 2 * kPages * kStage);
  const Shared<float> sM = memory.array<float>("sM", R * kThreads) + threadIdx.x;  // m, rarely read

  // The block's: queries [i0, i1) of head h, batch item b, the last first (divided in 32 bits).
  const unsigned heads = static_cast<unsigned>(Q.H);
  const unsigned tiles = static_cast<unsigned>((Q.N + Br - 1) / Br);
  const Index h = blockIdx.x / tiles % heads, b = blockIdx.x / tiles / heads;
  const Index i0 = Index{tiles - 1 - blockIdx.x % tiles} * Br, i1 = min(i0 + Br, Q.N);
  const Index kv = static_cast<unsigned>(h) / (heads / static_cast<unsigned>(K.H));
  const GlobalMatrix<const T> gK = K.head(b, kv), gV = V.head(b, kv);
  const Index first_key = mask.keys(i0, i1).first;
  const BlockMask seen = mask.block(i0, i1);
  // The thread's, in each piece of 16 queries by 8 keys (or columns) that an mma gives its warp:
  // rows g and g + 8, keys 2t and 2t + 1. w counts pieces below each other, n those beside.
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);  // the compiler sees: one a warp
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = warp * kRows, row = row0 + g;
  // For ldmatrix a lane names a row: lane 8m + i row i of matrix m. Two matrices below each other,
  // two beside them (Q, V); or two beside each other, two below them (K).
  const int below = lane % 16, beside = lane / 16 * 8;
  const Place<T, Br> q_place(sQ, row0 + below, beside);
  const Place<T, kStage> k_place(sK, lane % 8 + beside, lane % 16 / 8 * 8);
  const Place<T, kStage> v_place(sV, below, beside);
  const unsigned copier = contiguous ? threadIdx.x : thread_index();  // why: experiments, 34
  const int copy_row = copier / 8, copy_column = copier % 8 * 8;      // where it copies
  const Place<T, kStage> k_copy(sK, copy_row, copy_column), v_copy(sV, copy_row, copy_column);
  const auto stride = [](const auto& X) { return contiguous ? D : static_cast<int>(X.row_stride); };
  const int k_stride = stride(K), v_stride = stride(V);
  const int columns = contiguous ? D : static_cast<int>(Q.d);
  // Keys that some of the warp's queries see, and those that all of them see.
  const int some_first = seen.first(row0), some_last = seen.last(row0 + kRows - 1);
  const int all_first = seen.first(row0 + kRows - 1), all_last = seen.last(row0);
  // A scale of 0 becomes one too small to count, but large enough for −inf · size = −inf.
  const float size = max(fabsf(scale), 1e-44f), c = size * 1.44269504f;

  //# region load_q
  const Place<T, Br> q_copy(sQ, copy_row, copy_column);
  const Global<const T> gQ = Q.head(b, h)[i0] + (copy_row * stride(Q) + copy_column);
  load_tile<Br, D>(q_copy, gQ, stride(Q), static_cast<int>(i1 - i0), columns);
  if (scale < 0) {  // then −Q has the scores that c wants
    cp_async_wait<0>();
    __syncthreads();
    for (int e = threadIdx.x; e < Br * D / 2; e += kThreads) {
      const auto two = Place<T, Br>(sQ, e / (D / 2), e % (D / 2) * 2).at(0, 0);
      store_vector(two, load_vector<std::uint32_t>(two) ^ 0x80008000);
    }
  }
  //# endregion
  std::uint32_t q_tile[kKeepQ ? D / 16 : 1][W][4];
  float mc_rows[R] = {}, l_tile[W][4] = {}, o_tile[W][D / 8][4] = {};
  for (int r = 0; r < R; ++r) sM[r * kThreads] = -INFINITY;
  unsigned finished = 0;  // rows that are done: bit r for row g + 8r
  Global<const T> k_next = gK[first_key] + (copy_row * k_stride + copy_column);
  Global<const T> v_next = gV[first_key] + (copy_row * v_stride + copy_column);
  for (bool exact = false;; exact = true) {
    if (exact) {  // back; addresses made anew here would be kept all through the first pass
      const Index back = (seen.count + kStage - 1) / kStage * kStage;
      k_next += -back * k_stride, v_next += -back * v_stride;
    }
    if (seen.count > 0) {
      load_tile<kStage, D>(k_copy, k_next, k_stride, seen.count, columns);
      load_tile<kStage, D>(v_copy, v_next, v_stride, seen.count, columns);
    }
    if (seen.count == 0) cp_async_wait<0>();  // then no tile waits for Q, but the vote is a barrier
    for (int stage = 0; stage < seen.count; stage += kStage) {  // counted from first_key
      const int here = stage / kStage % 2 * (kPages * kStage);  // where the stage begins
      //# region load_kv
      cp_async_wait<0>();
      __syncthreads();  // everybody's part is there, and nobody needs the one before any more
      k_next += kStage * k_stride, v_next += kStage * v_stride;
      if (const int left = seen.count - (stage + kStage); left > 0) {
        const int there = kPages * kStage - here;
        load_tile<kStage, D>(k_copy.behind(there), k_next, k_stride, left, columns);
        load_tile<kStage, D>(v_copy.behind(there), v_next, v_stride, left, columns);
      }
      //# endregion
      if (kKeepQ && stage == 0)
        for (int x = 0; x < D; x += 16)
          for (int w = 0; w < W; ++w) ldmatrix_x4(q_tile[x / 16][w], q_place.at(16 * w, x));
#pragma unroll
      for (int part = 0; part < kStage; part += Bc) {
        const int j0 = stage + part;
        if (j0 + Bc <= some_first || j0 >= some_last) continue;
        //# region scores  S = Q Kᵀ
        float s_tile[W][Bc / 8][4] = {};
#pragma unroll
        for (int x = 0; x < D; x += 16) {
          std::uint32_t(&q)[W][4] = q_tile[kKeepQ ? x / 16 : 0];
          for (int w = 0; w < W && !kKeepQ; ++w) ldmatrix_x4(q[w], q_place.at(16 * w, x));
#pragma unroll
          for (int n = 0; n < Bc / 8; n += 2) {
            std::uint32_t k[2][2];
            ldmatrix_x4(k[0], k[1], k_place.behind(here).at(part + 8 * n, x));
            for (int w = 0; w < W; ++w)
              for (int y = 0; y < 2; ++y)
                mma_m16n8k16<T>(s_tile[w][n + y], q[w], k[y], s_tile[w][n + y]);
          }
        }
        //# endregion
        // After one tile that all see every row has an m.
        if (exact || j0 < all_first + Bc || j0 + Bc > all_last) {
          const BlockMask tile = seen.from_key(j0);
          const bool whole = j0 >= all_first && j0 + Bc <= all_last;
#pragma unroll
          for (int r = 0; r < R; ++r) {  // rows g, g + 8, …
            float(&s_i)[Bc / 8][4] = s_tile[r / 2];
            float(&o_i)[D / 8][4] = o_tile[r / 2];
            const int i = row + 8 * r, e = r % 2 * 2;  // its elements in a piece: e and e + 1
            //# region mask  of row i, only the keys that query i sees; the others have P = 0
            const int first = tile.first(i), last = finished >> r & 1 ? 0 : tile.last(i);
            for (int n = 0; n < Bc / 8 && (exact || !whole); ++n)
              for (int y = 0; y < 2; ++y)
                if (const int k = 8 * n + 2 * t + y; k < first || k >= last)
                  s_i[n][e + y] = -INFINITY;
            //# endregion
            //# region rowmax  m = max(m, max s), of 4 neighbouring threads that share the row
            const float m_old = sM[r * kThreads];
            float m = m_old;
            for (int n = 0; n < Bc / 8; ++n) m = max(m, max(s_i[n][e], s_i[n][e + 1]));
            for (int other = 1; other < 4; other *= 2)
              m = max(m, __shfl_xor_sync(kAllLanes, m, other));
            sM[r * kThreads] = m;
            //# endregion
            //# region rescale  what was summed under m_old is brought under m
            const float alpha = m_old == -INFINITY ? 0 : exp2_approx((m_old - m) * c);
            l_tile[r / 2][e] *= alpha;
            for (int n = 0; n < D / 8; ++n) o_i[n][e] *= alpha, o_i[n][e + 1] *= alpha;
            //# endregion
            mc_rows[r] = m == -INFINITY ? -3.4e38f : m * c;  // no m: a finite score has P = ∞
            if (m != -INFINITY && fabsf(m * c) > kHuge) {    // 2^(c s − c m) could be anything
              for (int n = 0; n < Bc / 8; ++n) s_i[n][e] -= m, s_i[n][e + 1] -= m;
              mc_rows[r] = exact ? 0 : NAN;  // and not only in this tile, so the row isn't finished
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
              //# region exp  p = 2^(c s − c m)
              const float* s = &s_tile[w][k0 / 8 + a / 2][a % 2 * 2];
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
            ldmatrix_x4_trans(v[0], v[1], v_place.behind(here).at(part + k0, 8 * n));
            for (int w = 0; w < W; ++w)
              for (int y = 0; y < 2; ++y)
                mma_m16n8k16<T>(o_tile[w][n + y], p[w], v[y], o_tile[w][n + y]);
          }
        }
        //# endregion
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float(&o_i)[D / 8][4] = o_tile[r / 2];
      const int e = r % 2 * 2;
      if (l_tile[r / 2][e] < kMostL) finished |= 1u << r;
      if (exact || (finished >> r & 1)) continue;
      sM[r * kThreads] = -INFINITY, l_tile[r / 2][e] = 0;
      for (int n = 0; n < D / 8; ++n) o_i[n][e] = o_i[n][e + 1] = 0;
    }
    if (exact || !__syncthreads_or(finished != (1u << R) - 1)) break;
  }
  // O goes through the warp's own rows of sQ, which no other warp reads.
  const Global<T> gO = O.head(b, h)[i0 + row0];
  const int rows = static_cast<int>(i1 - i0);
  __syncwarp();                  // no lane reads Q any more
  float m_mine = 0, l_mine = 1;  // of row g + 8t: each of a row's 4 threads sees to one row's LSE
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int e = r % 2 * 2;
    float(&o_i)[D / 8][4] = o_tile[r / 2];
    const float l = l_tile[r / 2][e];
    if (t == r) m_mine = sM[r * kThreads], l_mine = l;
    //# region finish  O = o / l; a query that sees no key has O = 0
    const float factor = seen.last(row + 8 * r) <= seen.first(row + 8 * r) ? 1 : 1 / l;
    for (int n = 0; n < D / 8; ++n) o_i[n][e] *= factor, o_i[n][e + 1] *= factor;
    //# endregion
    const Place<T, Br> place(sQ, row, 2 * t);
    for (int n = 0; n < D / 8; ++n)
      store_vector(place.at(8 * r, 8 * n), round_pair<T>(o_i[n][e], o_i[n][e + 1]));
  }
  if (const int i = row + 8 * t; t < R && i < rows)                    // LSE = scale · m + log l
    LSE[(b * Q.H + h) * Q.N + i0 + i] = m_mine * size + logf(l_mine);  // c is rounded
  __syncwarp();
  //# region store  16 bytes a thread; first all loads, so that none waits for a store
  uint4 pieces[kRows * D / 256];
#pragma unroll
  for (int n = 0, e = lane; e < kRows * D / 8; ++n, e += 32)
    pieces[n] = load_vector<uint4>(Place<T, Br>(sQ, row0 + e / (D / 8), e % (D / 8) * 8).at(0, 0));
#pragma unroll
  for (int n = 0, e = lane; e < kRows * D / 8; ++n, e += 32) {
    const int i = e / (D / 8), x = e % (D / 8) * 8;
    if (row0 + i < rows && x < columns) store_vector(gO + (i * stride(O) + x), pieces[n]);
  }
  //# endregion
}

}  // namespace FA_TARGET
}  // namespace stage5::step5p
