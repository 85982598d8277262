// A wrong copy of a CUDA stage, as a Stage that runs in the emulator. Only one type (float32; in stage 5
// float16) and d ≤ 64 are compiled: what the probes need, a small part of the stage's own instances.
#pragma once

#include "common/harness/simt_run.hpp"
#include "common/harness/stage.hpp"

namespace fa {

template <class T>
Stage kernel_mutant(
    int number,
    const char* name,
    const char* cause,
    void (*launch)(
        Tensor<const T>, Tensor<const T>, Tensor<const T>, Tensor<T>, float*, float, const Mask&),
    bool (*takes_d)(Index) = nullptr) {
  Stage stage;
  stage.number = number;
  stage.name = name;
  stage.title = cause;
  stage.dtypes = {dtype_of<T>};
  stage.on_device = true;
  if (takes_d) stage.takes_d = takes_d;
  stage.leeway.P_in_16_bits = number == 5;
  stage.run = [launch](const Job& job) {
    return in_emulator(job, [&] {
      launch(job.Q.as<const T>(),
             job.K.as<const T>(),
             job.V.as<const T>(),
             job.O.as<T>(),
             job.LSE,
             job.problem.scale,
             job.problem.mask());
    });
  };
  return stage;
}

}  // namespace fa
