#include "common/course/measure.hpp"

#include <array>
#include <ctime>
#include <fstream>
#include <thread>

#include "common/course/subprocess.hpp"
#include "common/course/text.hpp"
#include "common/harness/run.hpp"

namespace fa::course {

Measurement measure(const fa::Stage& stage,
                    const Inputs& inputs,
                    int threads,
                    double budget_seconds) {
  Output output(inputs.problem);
  Job job;
  job.problem = inputs.problem;
  job.Q = inputs.Q.view();
  job.K = inputs.K.view();
  job.V = inputs.V.view();
  job.O = output.O();
  job.LSE = output.LSE();
  job.threads = threads;

  const Timing timing = run_timed(stage, job, output, "", 0, budget_seconds);
  Measurement m;
  const Cost cost = stage.cost(job);
  m.seconds = timing.median();
  m.repeats = static_cast<int>(timing.seconds.size());
  m.flop = inputs.problem.flop();
  m.extra_bytes = static_cast<double>(timing.extra_bytes);
  m.extra_bytes_predicted = cost.scratch_bytes;
  m.traffic_bytes = cost.traffic_bytes;
  return m;
}

Inputs one_head(Index N, Index d, DType dtype) {
  Problem p;
  p.Nq = p.Nkv = N;
  p.d = d;
  p.dtype = dtype;
  p.scale = default_scale(d);
  return make_inputs(p, "normal", 1);
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.compare(0, 10, "model name") == 0) return trimmed(line.substr(line.find(':') + 1));
  const Finished mac =
      run_program({"sh", "-c", "sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m"});
  return mac.output.substr(0, mac.output.find('\n'));
}

int processor_cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", std::localtime(&now));
  return text.data();
}

}  // namespace fa::course
