// Stage 4 on the GPU behind a C function, so that stage4_gpu.py can run it on arrays that PyTorch
// made.
#define FA_TARGET gpu
#include <exception>
#include <string>

#include "common/attention/types.hpp"
#include "stage4_simple_cuda/attention.hpp"

using namespace fa;

extern "C" {

/// Launches stage 4 on the default stream and returns at once: q, k, v, o [B, H, N, d] in float16 (half
/// = 1) or float32, and lse [B, H, N], contiguous, in the GPU's memory. Returns what went wrong, or a
/// null pointer.
const char* fa_stage4(int half,
                      long B,
                      long H,
                      long N,
                      long d,
                      int causal,
                      float scale,
                      const void* q,
                      const void* k,
                      const void* v,
                      void* o,
                      float* lse) {
  static std::string problem;
  try {
    const Mask mask{N, 0, causal != 0, -1, -1};
    dispatch(half != 0 ? DType::float16 : DType::float32, [&](auto zero) {
      using T = decltype(zero);
      const auto input = [&](const void* x) {
        return contiguous(static_cast<const T*>(x), B, H, N, d);
      };
      stage4::gpu::attention<T>(input(q),
                                input(k),
                                input(v),
                                contiguous(static_cast<T*>(o), B, H, N, d),
                                lse,
                                scale,
                                mask);
    });
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
}
