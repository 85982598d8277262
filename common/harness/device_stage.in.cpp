// Stage @FA_NUMBER@ as the harness sees it. Generated from common/harness/device_stage.in.cpp.
#include "@FA_FOLDER@/attention.hpp"
#include "common/cuda/runtime.hpp"
#include "common/harness/cpu_stage.hpp"
#include "common/harness/simt_run.hpp"

namespace fa {

Stage @FA_NAMESPACE@_stage();
RunFacts @FA_NAMESPACE@_on_gpu(const Job& job);  // linked where the build has CUDA

namespace {

RunFacts run_on_simt(const Job& job) {
  return in_emulator(job, [&] {
    dispatch(job.problem.dtype, [&](auto zero) {
      using T = decltype(zero);
      @FA_NAMESPACE@::attention<T>(job.Q.as<const T>(),
                                     job.K.as<const T>(),
                                     job.V.as<const T>(),
                                     job.O.as<T>(),
                                     job.LSE,
                                     job.problem.scale,
                                     job.problem.mask());
    });
  });
}

}  // namespace

Stage @FA_NAMESPACE@_stage() {
  Stage stage;
  stage.number = @FA_NUMBER@;
  stage.name = "@FA_NAME@";
  stage.title = "@FA_TITLE@";
  stage.dtypes = {@FA_DTYPES@};
  stage.on_device = true;
  stage.leeway.whole_tiles = true;
  stage.tile_for = [](const Problem& p, Tile) { return @FA_NAMESPACE@::default_tile(p.d); };
  stage.run = [](const Job& job) {
    const cuda::Gpu& gpu = cuda::gpu();
    if (job.device == Device::gpu && !gpu.usable)
      throw CannotRun(gpu.problem + "; --device simt runs the same kernel on the CPU");
#if @FA_GPU@
    if (job.device != Device::simt && gpu.usable) return @FA_NAMESPACE@_on_gpu(job);
#endif
    return run_on_simt(job);
  };
  stage.cost = [](const Job& job) {
    return cost_of_heads(
        job, @FA_NAMESPACE@::cost, @FA_NAMESPACE@::default_tile(job.problem.d));
  };
  return stage;
}

}  // namespace fa
