// The steps of stage @FA_NUMBER@ on the GPU behind C functions, so that stage5_gpu.py can run them
// on arrays that PyTorch made. Generated from common/bench/stage5_c_api.in.cpp.
#define FA_TARGET gpu
#include <exception>
#include <string>

#include "common/attention/problem.hpp"
@FA_INCLUDE_STEPS@
using namespace fa;

namespace {

/// A step, for elements of type T.
template <class T>
struct Step {
  const char* label;
  decltype(&stage@FA_NUMBER@::step@FA_FIRST_STEP@::gpu::attention<T>) attention;
  decltype(&stage@FA_NUMBER@::step@FA_FIRST_STEP@::gpu::takes<T>) takes;
};

#define FA_BENCH_STEP(label) \
  {#label, stage@FA_NUMBER@::step##label::gpu::attention<T>, stage@FA_NUMBER@::step##label::gpu::takes<T>},
template <class T>
const Step<T> steps[] = {
@FA_LIST_STEPS@};

/// The step with this label, the last one for an empty label. Throws Refused where there is none.
template <class T>
const Step<T>& step_called(const std::string& label) {
  const Step<T>* last = nullptr;
  for (const Step<T>& step : steps<T>) {
    if (label == step.label) return step;
    last = &step;
  }
  if (label.empty()) return *last;
  throw Refused("stage @FA_NUMBER@ has no step '" + label + "': it has @FA_STEP_LABELS@");
}

}  // namespace

extern "C" {

/// The labels of all steps in order, separated by spaces.
const char* fa_stage5_steps() { return "@FA_STEP_LABELS@"; }

/// Launches a step ("": the last) on the default stream and returns at once: q and o [B, Hq, Nq, d],
/// k and v [B, Hkv, Nkv, d] in float16 (bfloat16_ = 0) or bfloat16, lse [B, Hq, Nq], in the GPU's
/// memory: contiguous, or with bnhd != 0 the heads of a token beside each other, q [B, Nq, Hq, d].
/// left, right: the window's, −1 unbounded. Returns what went wrong, or a null pointer. That another
/// step's kernel would run in its place counts as wrong.
const char* fa_stage5(const char* step,
                      int bfloat16_,
                      int bnhd,
                      long B,
                      long Hq,
                      long Hkv,
                      long Nq,
                      long Nkv,
                      long d,
                      int causal,
                      long left,
                      long right,
                      float scale,
                      const void* q,
                      const void* k,
                      const void* v,
                      void* o,
                      float* lse) {
  static std::string problem;
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    const Step<T>& called = step_called<T>(step);
    const auto tensor = [&](auto* data, Index H, Index N) {
      auto X = contiguous(data, B, H, N, d);
      if (bnhd != 0) X.row_stride = H * d, X.head_stride = d;
      return X;
    };
    const auto Q = tensor(static_cast<const T*>(q), Hq, Nq);
    const auto K = tensor(static_cast<const T*>(k), Hkv, Nkv);
    const auto V = tensor(static_cast<const T*>(v), Hkv, Nkv);
    const auto O = tensor(static_cast<T*>(o), Hq, Nq);
    if (!called.takes(Q, K, V, O))
      throw Refused("step " + std::string(called.label) + " doesn't take d = " + std::to_string(d) +
                    " itself: step 2's kernel would run");
    called.attention(Q, K, V, O, lse, scale, Mask{Nkv, Nkv - Nq, causal != 0, left, right});
  };
  try {
    bfloat16_ != 0 ? run(bfloat16()) : run(float16());
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
}
