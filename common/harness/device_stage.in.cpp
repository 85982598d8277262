// Stage @FA_NUMBER@ as the harness sees it. Generated from common/harness/device_stage.in.cpp.
#include "@FA_HEADER@"
#include "common/cuda/runtime.hpp"
#include "common/harness/cpu_stage.hpp"
#include "common/harness/simt_run.hpp"

namespace fa {

Stage @FA_ID@_stage();
RunFacts @FA_ID@_on_gpu(const Job& job);  // linked where the build has CUDA

Stage @FA_ID@_stage() {
  Stage stage;
  stage.number = @FA_NUMBER@;
  stage.name = "@FA_NAME@";
  stage.title = "@FA_TITLE@";
  stage.dtypes = {@FA_DTYPES@};
  stage.on_device = true;
  stage.leeway.whole_tiles = true;
#if @FA_IN_STEPS@
  stage.step = "@FA_STEP@";
  stage.adds = "@FA_ADDS@";
  stage.source = "@FA_FILE@";
  stage.leeway.P_in_16_bits = true;
  stage.takes_d = @FA_NAMESPACE@::takes_d;
#endif
  stage.runs_on = [](Device device) {
    const cuda::Gpu& gpu = cuda::gpu();
    return device == Device::simt || !gpu.usable || gpu.lacks(@FA_NEEDS_CC@).empty();
  };
  stage.tile_for = [](const Problem& p, Tile) { return @FA_NAMESPACE@::default_tile(p.d); };
  stage.run = [](const Job& job) {
    const cuda::Gpu& gpu = cuda::gpu();
    if (job.device == Device::gpu && !gpu.usable)
      throw CannotRun(gpu.problem + "; --device simt runs the same kernel on the CPU");
#if @FA_GPU@
    if (job.device != Device::simt && gpu.usable) {
      if (const std::string lack = gpu.lacks(@FA_NEEDS_CC@); !lack.empty())
        throw CannotRun(gpu.text() + ": step @FA_STEP@ needs " + lack +
                        "; without --step the newest that runs here is taken");
#if @FA_IN_STEPS@
      const std::string lack = gpu.lacks(80);
      if (!lack.empty() && job.problem.dtype == DType::bfloat16)
        throw CannotRun(gpu.text() + ": products of bfloat16 need " + lack +
                        "; float16 runs, and stage 4");
#endif
      return @FA_ID@_on_gpu(job);
    }
#endif
    std::string note;
    RunFacts facts = in_emulator(job, [&] {
      dispatch(job.problem.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto Q = job.Q.as<const T>(), K = job.K.as<const T>(), V = job.V.as<const T>();
        const auto O = job.O.as<T>();
        @FA_NAMESPACE@::attention<T>(Q, K, V, O, job.LSE, job.problem.scale, job.problem.mask());
#if @FA_IN_STEPS@
        if (!@FA_NAMESPACE@::takes(Q, K, V, O)) note = kOtherKernel;
#endif
      });
    });
    facts.note = note;
    return facts;
  };
  stage.cost = [](const Job& job) {
    return cost_of_heads(
        job, @FA_NAMESPACE@::cost, @FA_NAMESPACE@::default_tile(job.problem.d));
  };
  return stage;
}

}  // namespace fa
