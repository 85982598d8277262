// The one header that kernels include. With nvcc these are CUDA's own words and a few thin
// functions of ours; with a plain C++ compiler the same words come from the emulator in
// common/simt.
//
//   from CUDA   threadIdx blockIdx blockDim gridDim  __syncthreads __syncwarp  __shfl_*_sync
//               __syncthreads_or __any_sync __all_sync __ballot_sync
//               dim3 float4 uint4 max min expf exp2f __fmul_rn
//   ours        thread_index()                                    threadIdx.x, in a register
//               Global<T> GlobalTensor<T> GlobalMatrix<T>         pointers and views, global memory
//               Shared<T> SharedTile<T, cols> shared_memory()     pointers and tiles, shared memory
//               Place<T, rows>                                    a lane's in a swizzled tile
//               load_vector store_vector                          several elements in one access
//               ldmatrix_x2 ldmatrix_x4 … _trans mma_m16n8k16     tensor cores
//               pair round_pair kOnes                             two 16-bit elements in a register
//               cp_async_16 cp_async_commit cp_async_wait         asynchronous copies
//               mbarrier_init mbarrier_arrive … _expect           barriers in shared memory, cc 9.0
//               mbarrier_wait … _together                         and waiting at them
//               TileMap<T> TileMaps<T> tile_map() tma_load        whole tiles, cc 9.0
//               tma_store … _wait fence_proxy_async               and pages of them, back
//               arrive_at                                         a counter, who came last? (no step asks)
//               launch<kernel>(grid, block, shared_bytes, …)      global("Q", Q) names one of these
#pragma once

#include <type_traits>

#include "common/attention/mask.hpp"
#include "common/attention/view.hpp"
#include "common/cuda/target.hpp"

#ifdef __CUDACC__
#include "common/cuda/gpu.cuh"
#else
#include "common/simt/device.hpp"
#endif

namespace fa::FA_TARGET {

/// exp(a − b), and 0 where a is −inf, whatever b is: common/attention/exp_minus.hpp, for kernels.
__device__ inline float exp_minus(float a, float b) { return a == -INFINITY ? 0.0f : expf(a - b); }

/// Two elements in one register, the first in its low half.
template <class T>
__device__ inline std::uint32_t pair(T low, T high) {
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
}

/// 1 and 1 in one register, to multiply P with. By its bits: of round_pair<T>(1, 1) ptxas leaves an
/// instruction in the program for bfloat16, and a register more is needed.
template <class T>
constexpr std::uint32_t kOnes = std::is_same_v<T, float16> ? 0x3c003c00 : 0x3f803f80;

/// threadIdx.x, read here and now; else the compiler may read the special register anew in a loop.
__device__ inline unsigned thread_index() {
#ifdef __CUDACC__
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#else
  return threadIdx.x;
#endif
}

/// What TMA copies for attention: tiles of Q, stages of K and V come; O leaves in tiles of a warp's
/// rows.
template <class T>
struct TileMaps {
  TileMap<const T> Q, K, V;
  TileMap<T> O;
};

}  // namespace fa::FA_TARGET

namespace fa {
using FA_TARGET::exp_minus;
using FA_TARGET::kOnes;
using FA_TARGET::pair;
using FA_TARGET::thread_index;
using FA_TARGET::TileMaps;
}  // namespace fa
