// CUDA's words, spoken by the emulator. Included by common/cuda/device.cuh, never by a kernel
// itself.
//
// What CUDA has as built-in names is a macro here where nothing else will do: these names exist
// only in kernels, and only when a plain C++ compiler reads them.
#pragma once

#include <cmath>
#include <tuple>
#include <utility>

#include "common/simt/tma.hpp"
#include "common/simt/warp.hpp"

// A kernel in a header is like an inline function.
#define __global__ inline
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx (::fa::simt::hot.thread)
#define blockIdx (::fa::simt::hot.block)
#define blockDim (::fa::simt::hot.block_dim)
#define gridDim (::fa::simt::hot.grid_dim)

#define expf(x) ::fa::simt::counted_exp(x)
#define exp2f(x) ::fa::simt::counted_exp2(x)

namespace fa {
using simt::__all_sync;
using simt::__any_sync;
using simt::__ballot_sync;
using simt::__fadd_rn;
using simt::__fmaf_rn;
using simt::__fmul_rn;
using simt::__shfl_down_sync;
using simt::__shfl_sync;
using simt::__shfl_up_sync;
using simt::__shfl_xor_sync;
using simt::__syncthreads;
using simt::__syncthreads_or;
using simt::__syncwarp;
using simt::arrive_at;
using simt::cp_async_16;
using simt::cp_async_commit;
using simt::cp_async_wait;
using simt::dim3;
using simt::exp2_approx;
using simt::fence_proxy_async;
using simt::float2;
using simt::float4;
using simt::Global;
using simt::global;
using simt::GlobalMatrix;
using simt::GlobalTensor;
using simt::kAllLanes;
using simt::ldmatrix_x2;
using simt::ldmatrix_x2_trans;
using simt::ldmatrix_x4;
using simt::ldmatrix_x4_trans;
using simt::load_vector;
using simt::max;
using simt::Mbarrier;
using simt::mbarrier_arrive;
using simt::mbarrier_arrive_expect;
using simt::mbarrier_init;
using simt::mbarrier_wait;
using simt::mbarrier_wait_together;
using simt::min;
using simt::mma_m16n8k16;
using simt::Place;
using simt::round_pair;
using simt::Shared;
using simt::shared_memory;
using simt::SharedMemory;
using simt::SharedTile;
using simt::store_vector;
using simt::tile_map;
using simt::TileMap;
using simt::tma_load;
using simt::tma_store;
using simt::tma_store_wait;
using simt::uint2;
using simt::uint3;
using simt::uint4;
}  // namespace fa

namespace fa::simt {

namespace impl {
template <class... Parameters>
std::tuple<Parameters...> parameters_of(void (*)(Parameters...));

/// "attention_kernel<float, 64>" out of the compiler's spelling of a function with that argument.
inline std::string kernel_name(std::string text) {
  const std::size_t begin = text.find("kernel = ");
  if (begin == std::string::npos) return text;
  text = text.substr(begin + 9);
  int depth = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (text[end] == '<' || text[end] == '(') ++depth;
    if (text[end] == '>' || text[end] == ')') --depth;
    if (depth == 0 && (text[end] == ';' || text[end] == ',' || text[end] == ']')) break;
  }
  text = text.substr(0, end);
  const std::size_t qualified = text.substr(0, text.find('<')).rfind("::");
  if (qualified != std::string::npos) return text.substr(qualified + 2);
  return text.substr(text[0] == '&' ? 1 : 0);
}
}  // namespace impl

/// launch<kernel>(grid, block, shared_bytes, arguments…): CUDA's kernel<<<grid, block,
/// shared_bytes>>>(arguments…), on the calling thread's session.
template <auto kernel, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, Arguments&&... arguments) {
  using Parameters = decltype(impl::parameters_of(kernel));
  const Parameters parameters(std::forward<Arguments>(arguments)...);
  KernelCall call;
  call.name = impl::kernel_name(__PRETTY_FUNCTION__);
  call.arguments = &parameters;
  call.run_thread = [](const void* p) { std::apply(kernel, *static_cast<const Parameters*>(p)); };
  launch_grid(call, grid, block, shared_bytes);
}

}  // namespace fa::simt

namespace fa {
using simt::launch;
}
