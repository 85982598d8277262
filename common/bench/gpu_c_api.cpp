// Stage 4 on the GPU behind a C function, so that stage4_gpu.py can run it on arrays that PyTorch
// made.
#define FA_TARGET gpu
#include <exception>
#include <string>

#include "common/attention/types.hpp"
#include "stage4_simple_cuda/attention.hpp"

using namespace fa;

namespace {

template <class T>
const char* run(long B,
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
    stage4::gpu::attention<T>(contiguous(static_cast<const T*>(q), B, H, N, d),
                              contiguous(static_cast<const T*>(k), B, H, N, d),
                              contiguous(static_cast<const T*>(v), B, H, N, d),
                              contiguous(static_cast<T*>(o), B, H, N, d),
                              lse,
                              scale,
                              mask);
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}

}  // namespace

extern "C" {

/// Launches stage 4 on the default stream and returns at once: q, k, v, o [B, H, N, d] in the type of
/// the name, and lse [B, H, N], contiguous, in the GPU's memory. Returns what went wrong, or a null
/// pointer.
const char* fa_stage4_float32(long B,
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
  return run<float>(B, H, N, d, causal, scale, q, k, v, o, lse);
}
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
  return run<float16>(B, H, N, d, causal, scale, q, k, v, o, lse);
}
}
