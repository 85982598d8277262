// CUDA's own words need no help; these are the ones of ours, for nvcc. Included by device.cuh.
//
// Memory is plain pointers: names and sizes that the emulator wants are taken and forgotten.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

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

template <class T>
__device__ void ldmatrix_x2(std::uint32_t (&r)[2], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
template <class T>
__device__ void ldmatrix_x4(std::uint32_t (&r)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
template <class T>
__device__ void ldmatrix_x2_trans(std::uint32_t (&r)[2], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
template <class T>
__device__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], const T* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Two operands of two matrices each.
template <class T>
__device__ void ldmatrix_x4(std::uint32_t (&r)[2], std::uint32_t (&s)[2], const T* row) {
  std::uint32_t four[4];
  ldmatrix_x4(four, row);
  r[0] = four[0], r[1] = four[1], s[0] = four[2], s[1] = four[3];
}

/// Two operands of two matrices each.
template <class T>
__device__ void ldmatrix_x4_trans(std::uint32_t (&r)[2], std::uint32_t (&s)[2], const T* row) {
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
__device__ void cp_async_16(T* to, const T* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#else
  const int elements = 16 / static_cast<int>(sizeof(T));
  for (int i = 0; i < elements; ++i)
    to[i] = i * static_cast<int>(sizeof(T)) < bytes ? from[i] : T(0.0f);
#endif
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
// Launching

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
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
using gpu::cp_async_16;
using gpu::cp_async_commit;
using gpu::cp_async_wait;
using gpu::exp2_approx;
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
using gpu::mma_m16n8k16;
using gpu::round_pair;
using gpu::Shared;
using gpu::shared_memory;
using gpu::SharedMemory;
using gpu::SharedTile;
using gpu::store_vector;
}  // namespace fa
