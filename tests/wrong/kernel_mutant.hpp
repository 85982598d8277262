// A wrong copy of a CUDA stage, as a Stage that runs in the emulator. Only float32 and d ≤ 64 are
// compiled: what the probes need, a third of a third of the stage's own instances.
#pragma once

#include "common/harness/simt_run.hpp"
#include "common/harness/stage.hpp"

namespace fa {

using KernelLauncher = void (*)(Tensor<const float>,
                                Tensor<const float>,
                                Tensor<const float>,
                                Tensor<float>,
                                float*,
                                float,
                                const Mask&);

inline Stage kernel_mutant(int number, const char* name, const char* cause, KernelLauncher launch) {
  Stage stage;
  stage.number = number;
  stage.name = name;
  stage.title = cause;
  stage.dtypes = {DType::float32};
  stage.on_device = true;
  stage.run = [launch](const Job& job) {
    return in_emulator(job, [&] {
      launch(job.Q.as<const float>(),
             job.K.as<const float>(),
             job.V.as<const float>(),
             job.O.as<float>(),
             job.LSE,
             job.problem.scale,
             job.problem.mask());
    });
  };
  return stage;
}

}  // namespace fa
