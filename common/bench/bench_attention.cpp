// Time and speed of each stage by itself. Google Benchmark's own flags choose and format:
//   bench_attention --benchmark_filter=stage3 --benchmark_format=json
// GFLOP/s counts visible (query, key) pairs only. To compare with PyTorch: pytorch_cpu.py.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "common/attention/scratch.hpp"
#include "common/harness/inputs.hpp"
#include "common/harness/stage.hpp"

namespace fa {
Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
}  // namespace fa

namespace {

using namespace fa;

void run_stage(benchmark::State& state, const Stage& stage, const Problem& problem, int threads) {
  const Inputs inputs = make_inputs(problem, "normal", 1);
  Output output(problem);
  Job job{problem,
          inputs.Q.view(),
          inputs.K.view(),
          inputs.V.view(),
          output.O(),
          output.LSE(),
          {},
          {},
          threads};
  stage.run(job);  // warm up
  ScratchMeter::reset();
  for (auto _ : state) stage.run(job);
  const double runs = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(problem.flop() * runs, benchmark::Counter::kIsRate);
  state.counters["extra_bytes"] = static_cast<double>(ScratchMeter::peak_bytes());
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const Stage& stage : {stage1_stage(), stage2_stage(), stage3_stage()})
    for (const int threads : {1, 0})
      for (const bool causal : {false, true})
        for (const Index d : {64, 128})
          for (const Index N : {1024, 2048, 4096}) {
            Problem p;
            p.Hq = p.Hkv = 8;
            p.Nq = p.Nkv = N;
            p.d = d;
            p.scale = default_scale(d);
            p.causal = causal;
            const std::string name = fmt::format("{}/H8/N{}/d{}{}/{}",
                                                 stage.name,
                                                 N,
                                                 d,
                                                 causal ? "/causal" : "",
                                                 threads == 1 ? "1_thread" : "all_cores");
            benchmark::RegisterBenchmark(
                name.c_str(), [=](benchmark::State& state) { run_stage(state, stage, p, threads); })
                ->Unit(benchmark::kMillisecond)
                ->UseRealTime();
          }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
