// Barriers, shuffles, votes, and the products and copies of tensor-core kernels, in the emulator.
#pragma once

#include <cmath>

#include "common/simt/memory.hpp"

namespace fa::simt {

/// Every lane of a warp, as a mask.
constexpr unsigned kAllLanes = 0xffffffffu;

namespace impl {
/// Sets that lanes meet with: arguments[lane] points to the lane's own.
struct Exchange {
  std::uint64_t value = 0;
  int source = 0;
  std::uint64_t result = 0;
  bool is_from_a_lane = true;
};

void sync_warp(Worker&, int warp, std::uint32_t mask, void* const* arguments);
void shuffle(Worker&, int warp, std::uint32_t mask, void* const* arguments);
void ballot(Worker&, int warp, std::uint32_t mask, void* const* arguments);

struct MatrixRows {       // ldmatrix
  std::uint32_t row = 0;  // first byte of the lane's row
  bool inside = true;
  std::uint32_t* result = nullptr;
};
template <int matrices, bool transposed>
void load_matrices(Worker&, int warp, std::uint32_t mask, void* const* arguments);

/// The lane's row, if it is one of those whose addresses count.
template <class T, int n>
MatrixRows rows_of(Shared<T> row, std::uint32_t (&result)[n], const At& here, bool counts) {
  static_assert(sizeof(T) == 2, "ldmatrix moves 16-bit elements");
  MatrixRows mine;
  mine.inside = !counts || row.template inside<uint4>(here, Access::load);
  mine.row = counts && mine.inside ? row.byte(0) : 0;
  mine.result = result;
  return mine;
}

/// Checks the source of a copy of fewer than 16 bytes perhaps.
template <class T>
bool touch_part(Global<const T> from, int bytes, const At& here) {
  return from.touch(here, Access::copy_begins, bytes / static_cast<int>(sizeof(T)), 16);
}

struct Fragments {  // mma.m16n8k16
  float* d = nullptr;
  const std::uint32_t* a = nullptr;
  const std::uint32_t* b = nullptr;
  const float* c = nullptr;
};
template <class T>
void multiply(Worker&, int warp, std::uint32_t mask, void* const* arguments);

inline int lane() {
  const unsigned n =
      hot.thread.x + hot.block_dim.x * (hot.thread.y + hot.block_dim.y * hot.thread.z);
  return static_cast<int>(n % 32);
}

template <class T>
T exchange(const char* name, unsigned mask, T value, int source, const char* file, int line) {
  static_assert(sizeof(T) <= 8, "shuffles take values of up to 8 bytes");
  Exchange mine;
  std::memcpy(&mine.value, &value, sizeof value);
  mine.source = source;
  meet({name, &shuffle, mask, site_of(file, line), &mine});
  std::memcpy(&value, &mine.result, sizeof value);
  return value;
}
}  // namespace impl

#define FA_SIMT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(FA_SIMT_HERE) {
  meet({"__syncthreads", nullptr, 0, site_of(file, line), nullptr});
}
inline int __syncthreads_or(int predicate, FA_SIMT_HERE) {
  int any = predicate != 0;
  meet({"__syncthreads_or", nullptr, 0, site_of(file, line), &any});
  return any;
}
inline void __syncwarp(unsigned mask = kAllLanes, FA_SIMT_HERE) {
  meet({"__syncwarp", &impl::sync_warp, mask, site_of(file, line), nullptr});
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions": lanes in groups of `width`; a source
// outside the group is the lane itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, FA_SIMT_HERE) {
  const int lane = impl::lane();
  return impl::exchange(
      "__shfl_sync", mask, value, lane / width * width + (source & (width - 1)), file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, FA_SIMT_HERE) {
  const int lane = impl::lane(), source = lane ^ flip;
  // Into an earlier group is allowed, into a later one isn't.
  return impl::exchange(
      "__shfl_xor_sync", mask, value, source / width > lane / width ? lane : source, file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, FA_SIMT_HERE) {
  const int lane = impl::lane(), source = lane - static_cast<int>(delta);
  return impl::exchange(
      "__shfl_up_sync", mask, value, source < lane / width * width ? lane : source, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, FA_SIMT_HERE) {
  const int lane = impl::lane(), source = lane + static_cast<int>(delta);
  return impl::exchange(
      "__shfl_down_sync", mask, value, source / width > lane / width ? lane : source, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, FA_SIMT_HERE) {
  impl::Exchange mine;
  mine.value = predicate != 0;
  meet({"__ballot_sync", &impl::ballot, mask, site_of(file, line), &mine});
  return static_cast<unsigned>(mine.result);
}
inline int __any_sync(unsigned mask, int predicate, FA_SIMT_HERE) {
  impl::Exchange mine;
  mine.value = predicate != 0;
  meet({"__any_sync", &impl::ballot, mask, site_of(file, line), &mine});
  return mine.result != 0;
}
inline int __all_sync(unsigned mask, int predicate, FA_SIMT_HERE) {
  impl::Exchange mine;
  mine.value = predicate == 0;
  meet({"__all_sync", &impl::ballot, mask, site_of(file, line), &mine});
  return mine.result == 0;
}

/// ldmatrix.m8n8.x2/x4.b16 (PTX ISA, "ldmatrix"): 8x8 matrices of 16-bit elements. Lane 8m + i
/// names the 16 bytes of row i of matrix m. Register m of lane l gets elements 2·(l mod 4) and the
/// next of row l/4; with `trans`, of column l/4.
template <class T>
void ldmatrix_x2(std::uint32_t (&r)[2], Shared<T> row, FA_SIMT_HERE) {
  impl::MatrixRows mine = impl::rows_of(row, r, At(0, file, line), impl::lane() < 16);
  meet({"ldmatrix.x2", &impl::load_matrices<2, false>, kAllLanes, site_of(file, line), &mine});
}
template <class T>
void ldmatrix_x4(std::uint32_t (&r)[4], Shared<T> row, FA_SIMT_HERE) {
  impl::MatrixRows mine = impl::rows_of(row, r, At(0, file, line), true);
  meet({"ldmatrix.x4", &impl::load_matrices<4, false>, kAllLanes, site_of(file, line), &mine});
}
template <class T>
void ldmatrix_x2_trans(std::uint32_t (&r)[2], Shared<T> row, FA_SIMT_HERE) {
  impl::MatrixRows mine = impl::rows_of(row, r, At(0, file, line), impl::lane() < 16);
  meet({"ldmatrix.x2.trans", &impl::load_matrices<2, true>, kAllLanes, site_of(file, line), &mine});
}
template <class T>
void ldmatrix_x4_trans(std::uint32_t (&r)[4], Shared<T> row, FA_SIMT_HERE) {
  impl::MatrixRows mine = impl::rows_of(row, r, At(0, file, line), true);
  meet({"ldmatrix.x4.trans", &impl::load_matrices<4, true>, kAllLanes, site_of(file, line), &mine});
}

/// Two operands of two matrices each.
template <class T>
void ldmatrix_x4(std::uint32_t (&r)[2], std::uint32_t (&s)[2], Shared<T> row, FA_SIMT_HERE) {
  std::uint32_t four[4];
  ldmatrix_x4(four, row, file, line);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

/// Two operands of two matrices each.
template <class T>
void ldmatrix_x4_trans(std::uint32_t (&r)[2], std::uint32_t (&s)[2], Shared<T> row, FA_SIMT_HERE) {
  std::uint32_t four[4];
  ldmatrix_x4_trans(four, row, file, line);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

/// Two numbers rounded to T in one register, the first in its low half.
template <class T>
std::uint32_t round_pair(float low, float high) {
  return T(low).bits | static_cast<std::uint32_t>(T(high).bits) << 16;
}

/// mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32 (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
/// D[16, 8] = A[16, 16] B[16, 8] + C. With g = lane / 4 and t = lane mod 4, the low half first:
///   a0 A[g][2t, 2t+1]   a1 A[g+8][2t, …]   a2 A[g][2t+8, …]   a3 A[g+8][2t+8, …]
///   b0 B[2t, 2t+1][g]   b1 B[2t+8, 2t+9][g]
///   c0 C[g][2t]  c1 C[g][2t+1]  c2 C[g+8][2t]  c3 C[g+8][2t+1]
template <class T>
void mma_m16n8k16(float (&d)[4],
                  const std::uint32_t (&a)[4],
                  const std::uint32_t (&b)[2],
                  const float (&c)[4],
                  FA_SIMT_HERE) {
  impl::Fragments mine{d, a, b, c};
  meet({"mma.m16n8k16", &impl::multiply<T>, kAllLanes, site_of(file, line), &mine});
}

/// cp.async.cg.shared.global 16 (PTX ISA, "cp.async"): `bytes` from global memory, the rest of the
/// 16 is zero. Nothing of it may be touched before cp_async_wait.
template <class T>
void cp_async_16(Shared<T> to, Global<const T> from, int bytes, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (!to.template inside<uint4>(here, Access::store)) return;
  if (bytes < 0 || bytes > 16 || bytes % static_cast<int>(sizeof(T)) != 0) {
    violate_copy_size(bytes, sizeof(T), here.site());
    bytes = 0;
  }
  if (bytes > 0 && !impl::touch_part<T>(from, bytes, here)) bytes = 0;
  hot.worker->copy(to.byte(0), bytes > 0 ? from.address(0) : nullptr, bytes, here.site());
}
template <class T>
void cp_async_16(Shared<T> to, Global<T> from, int bytes, FA_SIMT_HERE) {
  cp_async_16(to, Global<const T>(from), bytes, file, line);
}
inline void cp_async_commit() { hot.worker->commit(); }
/// Waits until all but the latest `groups` commit groups of this thread have landed.
template <int groups>
void cp_async_wait() {
  hot.worker->wait(groups, 0);
}

// Arithmetic that is counted, or that nvcc must not fuse.
inline float counted_exp(float x) { return ++hot.exponentials, std::exp(x); }
inline float counted_exp2(float x) { return ++hot.exponentials, std::exp2(x); }
inline float exp2_approx(float x) { return x < -126 ? 0 : counted_exp2(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }

// CUDA's max and min take the number where the other is NaN.
inline float max(float a, float b) { return a < b || a != a ? b : a; }
inline float min(float a, float b) { return b < a || a != a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline int min(int a, int b) { return b < a ? b : a; }
inline Index max(Index a, Index b) { return a < b ? b : a; }
inline Index min(Index a, Index b) { return b < a ? b : a; }

#undef FA_SIMT_HERE

}  // namespace fa::simt
