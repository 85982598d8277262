// Stage 4 on the GPU behind a C function, so that stage4_gpu.py can run it on arrays that PyTorch
// made.
#define FA_TARGET gpu
#include <exception>
#include <string>

#include "common/attention/types.hpp"
#include "stage4_simple_cuda/attention.hpp"

using namespace fa;

extern "C" {

/// Launches stage 4 in float16 on the default stream and returns at once: q, k, v, o [B, H, N, d]
/// and lse [B, H, N], contiguous, in the GPU's memory. Returns what went wrong, or a null pointer.
const char* fa_stage4_float16(long B,
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
    stage4::gpu::attention<float16>(contiguous(static_cast<const float16*>(q), B, H, N, d),
                                    contiguous(static_cast<const float16*>(k), B, H, N, d),
                                    contiguous(static_cast<const float16*>(v), B, H, N, d),
                                    contiguous(static_cast<float16*>(o), B, H, N, d),
                                    lse,
                                    scale,
                                    mask);
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
}
