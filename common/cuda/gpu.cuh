// CUDA's own words need no help; these are the ones of ours, for nvcc. Included by device.cuh.
//
// Memory is plain pointers: names and sizes that the emulator wants are taken and forgotten.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/cuda/tile_map.hpp"

namespace fa::gpu {

/// Every lane of a warp, as a mask.
constexpr unsigned kAllLanes = 0xffffffffu;

// ---------------------------------------------------------------------------------------------
// Memory

template <class T>
using Global = T*;
template <class T>
using GlobalMatrix = fa::Matrix<T>;
template <class T>
using GlobalTensor = fa::Tensor<T>;

template <class T>
Tensor<T> global(const char*, const Tensor<T>& t) {
  return t;
}
template <class T>
T* global(const char*, T* data, Index) {
  return data;
}

template <class T>
using Shared = T*;
template <class T, int cols>
using SharedTile = T (*)[cols];

/// The block's dynamic shared memory, handed out from its beginning.
class SharedMemory {
 public:
  __device__ explicit SharedMemory(unsigned char* begin) : next_(begin) {}

  template <class T, int cols>
  __device__ SharedTile<T, cols> tile(const char*, Index rows) {
    return reinterpret_cast<SharedTile<T, cols>>(take(tile_bytes<T, cols>(rows)));
  }
  template <class T>
  __device__ Shared<T> array(const char*, Index elements) {
    return reinterpret_cast<T*>(take(tile_bytes<T, 1>(elements)));
  }

 private:
  __device__ unsigned char* take(std::size_t bytes) {
    unsigned char* const begin = next_;
    next_ += bytes;
    return begin;
  }
  unsigned char* next_;
};

__device__ inline SharedMemory shared_memory() {
  extern __shared__ __align__(1024) unsigned char fa_shared_memory[];
  return SharedMemory(fa_shared_memory);
}

/// A vector of several elements, in one access.
template <class V, class T>
__device__ V load_vector(const T* from) {
  return *reinterpret_cast<const V*>(from);
}
template <class V, class T>
__device__ void store_vector(T* to, const V& value) {
  *reinterpret_cast<V*>(to) = value;
}

// ---------------------------------------------------------------------------------------------
// Tensor cores (PTX ISA, "Warp-level matrix instructions")

/// The address of shared memory as PTX wants it.
template <class T>
__device__ unsigned shared_address(const T* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// Where a Place's `at` lies.
struct SharedAddress {
  unsigned bytes;
};
__device__ inline unsigned shared_address(SharedAddress a) { return a.bytes; }

/// A lane's place in a tile of pages [columns / 64][rows][64], in whose rows i pieces of 8 columns have
/// changed places: piece x / 8 lies at x / 8 ^ (i & 7). (So 8 pieces below each other lie in all 32
/// banks.)
template <class T, int rows>
class Place {
 public:
  /// At row i, column x. The tile begins at a multiple of 1024 bytes.
  __device__ Place(SharedTile<T, 64> tile, int i, int x)
      : address_(shared_address(tile[x / 64 * rows + i]) + (x % 64 ^ (i & 7) * 8) * kBytes) {}

  /// `down` rows below, a multiple of 8, and `right` columns to the right, with none of the bits that x
  /// has: one XOR, and an offset where both are known to the compiler.
  __device__ SharedAddress at(int down, int right) const {
    return {(address_ ^ right % 64 * kBytes) + (right / 64 * rows + down) * 64 * kBytes};
  }
  /// The same place in a tile that lies so many rows behind, a multiple of 8.
  __device__ Place behind(int tile_rows) const { return Place(address_ + tile_rows * 64 * kBytes); }

 private:
  static constexpr unsigned kBytes = sizeof(T);
  __device__ explicit Place(unsigned address) : address_(address) {}
  unsigned address_;
};

template <class V>
__device__ void store_vector(SharedAddress to, const V& value) {
  *static_cast<V*>(__cvta_shared_to_generic(to.bytes)) = value;
}
template <class V>
__device__ V load_vector(SharedAddress from) {
  return *static_cast<const V*>(__cvta_shared_to_generic(from.bytes));
}

template <class Row>
__device__ void ldmatrix_x2(std::uint32_t (&r)[2], Row row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
template <class Row>
__device__ void ldmatrix_x4(std::uint32_t (&r)[4], Row row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
template <class Row>
__device__ void ldmatrix_x2_trans(std::uint32_t (&r)[2], Row row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
template <class Row>
__device__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], Row row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Two operands of two matrices each.
template <class Row>
__device__ void ldmatrix_x4(std::uint32_t (&r)[2], std::uint32_t (&s)[2], Row row) {
  std::uint32_t four[4];
  ldmatrix_x4(four, row);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

/// Two operands of two matrices each.
template <class Row>
__device__ void ldmatrix_x4_trans(std::uint32_t (&r)[2], std::uint32_t (&s)[2], Row row) {
  std::uint32_t four[4];
  ldmatrix_x4_trans(four, row);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

/// 2^x in one instruction: off by 2^-22 of it at most, and 0 below 2^-126.
__device__ inline float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Two numbers rounded to T in one register, the first in its low half.
template <class T>
__device__ std::uint32_t round_pair(float low, float high);
template <>
__device__ inline std::uint32_t round_pair<float16>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
template <>
__device__ inline std::uint32_t round_pair<bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// D[16, 8] = A[16, 16] B[16, 8] + C, T float16 or bfloat16, accumulated in float32.
template <class T>
__device__ void mma_m16n8k16(float (&d)[4],
                             const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2],
                             const float (&c)[4]);

template <>
__device__ inline void mma_m16n8k16<float16>(float (&d)[4],
                                             const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2],
                                             const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]),
        "r"(a[1]),
        "r"(a[2]),
        "r"(a[3]),
        "r"(b[0]),
        "r"(b[1]),
        "f"(c[0]),
        "f"(c[1]),
        "f"(c[2]),
        "f"(c[3]));
#else
  // cc 7.5 knows products of depth 8 only: two of them, each with half of the fragments.
  float half[4];
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=f"(half[0]), "=f"(half[1]), "=f"(half[2]), "=f"(half[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b[1]), "f"(half[0]), "f"(half[1]), "f"(half[2]), "f"(half[3]));
#endif
}

template <>
__device__ inline void mma_m16n8k16<bfloat16>(float (&d)[4],
                                              const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2],
                                              const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]),
        "r"(a[1]),
        "r"(a[2]),
        "r"(a[3]),
        "r"(b[0]),
        "r"(b[1]),
        "f"(c[0]),
        "f"(c[1]),
        "f"(c[2]),
        "f"(c[3]));
#else
  __trap();  // no bfloat16 products before cc 8.0: launchers refuse them
#endif
}

// ---------------------------------------------------------------------------------------------
// Asynchronous copies (PTX ISA, "cp.async")

/// 16 bytes from global to shared memory, past L1; `bytes` of them are read, the rest is zero.
template <class T>
__device__ void cp_async_16(SharedAddress to, const T* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#else
  T* const element = static_cast<T*>(__cvta_shared_to_generic(to.bytes));
  const int elements = 16 / static_cast<int>(sizeof(T));
  for (int i = 0; i < elements; ++i)
    element[i] = i * static_cast<int>(sizeof(T)) < bytes ? from[i] : T(0.0f);
#endif
}
template <class T>
__device__ void cp_async_16(T* to, const T* from, int bytes) {
  cp_async_16(SharedAddress{shared_address(to)}, from, bytes);
}
__device__ inline void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until all but the latest `groups` commit groups of this thread have landed.
template <int groups>
__device__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

// ---------------------------------------------------------------------------------------------
// Barriers in memory (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier")
//
// An mbarrier goes through phases. A phase is over when all arrivals that it was made for have come
// and all bytes that they announced have landed; the next one begins at once. From cc 9.0 on.

/// Lives in shared memory: memory.array<Mbarrier>("full", n).
struct alignas(8) Mbarrier {
  std::uint64_t state;
};

/// Makes *b a barrier in its phase 0, of `arrivals` a phase. By one thread; others may use it after
/// a __syncthreads, and copies by TMA may, too.
__device__ inline void mbarrier_init(Shared<Mbarrier> b, int arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals)
               : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  __trap();
#endif
}

/// One arrival, which makes known what this thread did before (release).
__device__ inline void mbarrier_arrive(Shared<Mbarrier> b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
#else
  __trap();
#endif
}

/// Likewise, and `bytes` more are to land before the phase is over.
__device__ inline void mbarrier_arrive_expect(Shared<Mbarrier> b, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
               "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

/// Waits until a phase of this parity (0 for the first, then 1, 0, …) is over: the present one, or
/// the one before, which is over already. What its arrivals made known is known then (acquire), and
/// its copies' bytes can be read.
__device__ inline void mbarrier_wait(Shared<Mbarrier> b, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n"
      "}" ::"r"(shared_address(b)),
      "r"(parity)
      : "memory");
#else
  __trap();
#endif
}

/// As mbarrier_wait, by all 32 lanes of a warp, which go on together. The compiler can't know that
/// lanes leave a loop of waiting at the same turn, and makes sure that they meet again, there and in
/// what follows (BSSY, BSYNC, WARPSYNC in the machine code). After a vote it knows.
__device__ inline void mbarrier_wait_together(Shared<Mbarrier> b, int parity) {
#if __CUDA_ARCH__ >= 900
  unsigned over;
  do {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "selp.u32 %0, 1, 0, over;\n"
        "}"
        : "=r"(over)
        : "r"(shared_address(b)), "r"(parity)
        : "memory");
  } while (!__all_sync(kAllLanes, over));
#else
  __trap();
#endif
}

/// Adds 1 to a counter and returns what was there before (PTX ISA, "atom"). Who arrives later knows
/// what those before did: the last of n is the one that gets n − 1.
__device__ inline int arrive_at(Shared<int> counter) {
  int before;
  asm volatile("atom.add.acq_rel.cta.shared.u32 %0, [%1], 1;"
               : "=r"(before)
               : "r"(shared_address(counter))
               : "memory");
  return before;
}

// ---------------------------------------------------------------------------------------------
// Copies of tiles by TMA (PTX ISA, "cp.async.bulk.tensor")

/// Orders ordinary accesses before copies by TMA: those of this thread, and those of others that it
/// has learnt of by synchronisation, before its later copies and those of threads that learn of it
/// (PTX ISA, "membar / fence": the async proxy).
__device__ inline void fence_proxy_async() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  __trap();
#endif
}

/// Boxes of a tensor [B, H, N, d] that TMA copies: TileMap<const T> for loads, TileMap<T> for stores.
/// A kernel's parameter:
/// const __grid_constant__ TileMap<const T> K.
template <class T>
struct TileMap {
  CUtensorMap map;
};

/// One thread copies rows [row, row + rows) of a head to `to`, which begins at a multiple of 1024
/// bytes: pages of 64 columns, [columns / 64][rows][64], in whose rows i pieces of 8 columns have
/// changed places: piece x / 8 lies at x / 8 ^ (i & 7). Rows that X doesn't have become 0. The
/// bytes, rows · columns · 2, land in the present phase of `done`.
template <class T>
__device__ void tma_load(SharedTile<T, 64> to,
                         const TileMap<const T>& map,
                         Index row,
                         Index head,
                         Index batch,
                         Shared<Mbarrier> done) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %2, %4, %5}], [%6];" ::"r"(shared_address(to)),
      "l"(&map),
      "r"(0),
      "r"(static_cast<int>(row)),
      "r"(static_cast<int>(head)),
      "r"(static_cast<int>(batch)),
      "r"(shared_address(done))
      : "memory");
#else
  __trap();
#endif
}

/// One thread copies a page of 64 columns, [rows][64], that lies swizzled as tma_load's do and begins
/// at a multiple of 1024 bytes, to rows [row, row + rows) and columns [64 page, 64 page + 64) of a
/// head. Rows that X doesn't have aren't written; but no number may be below 0, which an H200 takes for
/// an illegal instruction. Who wrote the page calls fence_proxy_async, then comes a barrier
/// (__syncwarp, __syncthreads), then this.
template <class T>
__device__ void tma_store(
    const TileMap<T>& map, SharedTile<T, 64> from, Index page, Index row, Index head, Index batch) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&map),
      "r"(0),
      "r"(static_cast<int>(row)),
      "r"(static_cast<int>(page)),
      "r"(static_cast<int>(head)),
      "r"(static_cast<int>(batch)),
      "r"(shared_address(from))
      : "memory");
#else
  __trap();
#endif
}

/// Waits until all stores that this thread asked for have read their pages. Only then may these be
/// overwritten, after a barrier by others too, and only then may the block end. What was stored is
/// there for sure once the kernel is over.
__device__ inline void tma_store_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#else
  __trap();
#endif
}

// ---------------------------------------------------------------------------------------------
// Launching

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// The driver's encoder of tensor maps, found by the runtime: nothing links the driver itself.
inline auto tensor_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
#endif
        "cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the CUDA driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

/// Boxes of `rows` rows of a head by `columns` = d columns (CUDA driver API,
/// "cuTensorMapEncodeTiled"). As a tensor of five axes, (64, N, columns / 64, H, B): one load brings
/// all pages of 64 columns, and one store, where X isn't const, takes one of them. Of an empty tensor
/// nothing can be copied.
template <class T>
TileMap<T> tile_map(const char* name, const Tensor<T>& X, int rows, int columns) {
  require_tile_map(name, X, rows, columns);
  TileMap<T> result{};
  if (X.B * X.H * X.N == 0) return result;
  using Element = std::remove_const_t<T>;
  static const auto encode = tensor_map_encoder();
  // Strides of axes of length 1 mean nothing, but must be multiples of 16 bytes.
  const auto bytes = [&](Index size, Index stride) {
    return static_cast<cuuint64_t>(size == 1 ? columns : stride) * sizeof(T);
  };
  const auto pages = static_cast<unsigned>(columns / 64);
  const cuuint64_t size[] = {64,
                             static_cast<cuuint64_t>(X.N),
                             pages,
                             static_cast<cuuint64_t>(X.H),
                             static_cast<cuuint64_t>(X.B)};
  const cuuint64_t stride[] = {bytes(X.N, X.row_stride),
                               64 * sizeof(T),
                               bytes(X.H, X.head_stride),
                               bytes(X.B, X.batch_stride)};
  const cuuint32_t box[] = {
      64, static_cast<cuuint32_t>(rows), static_cast<cuuint32_t>(pages_of_box<T>(columns)), 1, 1};
  const cuuint32_t every[] = {1, 1, 1, 1, 1};
  const CUresult error = encode(&result.map,
                                std::is_same_v<Element, bfloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                5,
                                const_cast<Element*>(X.data),
                                size,
                                stride,
                                box,
                                every,
                                CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS)
    throw std::runtime_error(std::string("tile_map of ") + name + ": cuTensorMapEncodeTiled says " +
                             std::to_string(static_cast<int>(error)));
  return result;
}

/// launch<kernel>(grid, block, shared_bytes, arguments…): CUDA's kernel<<<grid, block,
/// shared_bytes>>>(arguments…), on the default stream, with permission for more than 48 KiB of
/// shared memory where the kernel asks for it. Throws if the launch fails; doesn't wait for its
/// end.
template <auto kernel, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  if (shared_bytes > 48 * 1024)
    check(cudaFuncSetAttribute(
              kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          "shared memory for a kernel");
  kernel<<<grid, block, shared_bytes>>>(static_cast<Arguments&&>(arguments)...);
  check(cudaGetLastError(), "launching a kernel");
}

}  // namespace fa::gpu

namespace fa {
using gpu::arrive_at;
using gpu::cp_async_16;
using gpu::cp_async_commit;
using gpu::cp_async_wait;
using gpu::exp2_approx;
using gpu::fence_proxy_async;
using gpu::Global;
using gpu::global;
using gpu::GlobalMatrix;
using gpu::GlobalTensor;
using gpu::kAllLanes;
using gpu::launch;
using gpu::ldmatrix_x2;
using gpu::ldmatrix_x2_trans;
using gpu::ldmatrix_x4;
using gpu::ldmatrix_x4_trans;
using gpu::load_vector;
using gpu::Mbarrier;
using gpu::mbarrier_arrive;
using gpu::mbarrier_arrive_expect;
using gpu::mbarrier_init;
using gpu::mbarrier_wait;
using gpu::mbarrier_wait_together;
using gpu::mma_m16n8k16;
using gpu::Place;
using gpu::round_pair;
using gpu::Shared;
using gpu::shared_memory;
using gpu::SharedMemory;
using gpu::SharedTile;
using gpu::store_vector;
using gpu::tile_map;
using gpu::TileMap;
using gpu::tma_load;
using gpu::tma_store;
using gpu::tma_store_wait;
}  // namespace fa
