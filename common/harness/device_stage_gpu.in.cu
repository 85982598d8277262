// Stage @FA_NUMBER@ on the GPU. Generated from common/harness/device_stage_gpu.in.cu.
#include "@FA_HEADER@"
#include "common/harness/gpu_run.hpp"

namespace fa {

RunFacts @FA_ID@_on_gpu(const Job& job);

RunFacts @FA_ID@_on_gpu(const Job& job) {
  std::string note;
  RunFacts facts = on_gpu(job, [&](const AnyTensor& Q, const AnyTensor& K, const AnyTensor& V, const AnyTensor& O, float* LSE) {
    dispatch(job.problem.dtype, [&](auto zero) {
      using T = decltype(zero);
      @FA_NAMESPACE@::attention<T>(Q.as<const T>(), K.as<const T>(), V.as<const T>(), O.as<T>(), LSE,
                                   job.problem.scale, job.problem.mask());
#if @FA_IN_STEPS@
      if (!@FA_NAMESPACE@::takes(Q.as<const T>(), K.as<const T>(), V.as<const T>(), O.as<T>()))
        note = kOtherKernel;
#endif
    });
  });
  facts.note = note;
  return facts;
}

}  // namespace fa
