// Where a CUDA stage runs: on a GPU, or in the emulator, and what it says where it can't.
#include <algorithm>

#include "common/cuda/runtime.hpp"
#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

namespace {

std::vector<std::string> small_on(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "-H", "2", "--kv-heads", "1", "-N", "50", "--kv-len", "70", "-d", "24", "--repeats", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// One line on standard error that begins with the program's name, nothing on standard output.
void check_one_line(const std::string& program, const Ended& ended) {
  INFO(ended.err);
  CHECK(ended.out.empty());
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  const std::string name = std::filesystem::path(program).filename().string() + ": ";
  CHECK(ended.err.compare(0, name.size(), name) == 0);
}

}  // namespace

TEST_CASE("device simt runs a CUDA stage in the emulator, and says so", "[cli]") {
  for (const std::string& stage : kCudaStages) {
    const Ended ended = run(stage, small_on({"--device", "simt", "--json", "--causal"}));
    CHECK(ended.exit_code == 0);
    const auto facts = ended.json();
    CHECK(facts.at("right") == true);
    CHECK(facts.at("device").get<std::string>().find("emulator") == 0);
  }
}

TEST_CASE("device gpu without a GPU: one line that says what works instead, exit 77", "[cli]") {
  const fa::cuda::Gpu& gpu = fa::cuda::gpu();
  for (const std::string& stage : kCudaStages) {
    const Ended ended = run(stage, small_on({"--device", "gpu", "--json"}));
    if (gpu.usable) {
      CHECK(ended.exit_code == 0);
      CHECK(ended.json().at("device").get<std::string>().find(gpu.name) == 0);
      continue;
    }
    CHECK(ended.exit_code == 77);
    check_one_line(stage, ended);
    CHECK(ended.err.find(gpu.problem) != std::string::npos);
    CHECK(ended.err.find("--device simt") != std::string::npos);
  }
}

TEST_CASE("device auto, the default, is the GPU where there is one, else the emulator", "[cli]") {
  const fa::cuda::Gpu& gpu = fa::cuda::gpu();
  const std::string expected = gpu.usable ? gpu.name : "emulator";
  for (const std::string& stage : kCudaStages)
    for (const std::vector<std::string>& flag :
         {std::vector<std::string>{}, std::vector<std::string>{"--device", "auto"}}) {
      std::vector<std::string> arguments = small_on(flag);
      arguments.push_back("--json");
      const Ended ended = run(stage, arguments);
      CHECK(ended.exit_code == 0);
      CHECK(ended.json().at("device").get<std::string>().find(expected) == 0);
    }
}

TEST_CASE("what a GPU lacks for a step is newer hardware, or code for the hardware that it is",
          "[cli]") {
  fa::cuda::Gpu gpu;
  gpu.name = "Some GPU";
  gpu.cc = gpu.code_cc = 90;
  CHECK(gpu.text() == "Some GPU (cc 9.0)");
  CHECK(gpu.lacks(80).empty());
  CHECK(gpu.lacks(90).empty());
  CHECK(gpu.lacks(100) == "a GPU of cc 10.0 or later");
  gpu.code_cc = 75;  // it runs PTX of an older architecture, where a kernel finds TMA left out
  CHECK(gpu.text() == "Some GPU (cc 9.0, code for cc 7.5)");
  CHECK(gpu.lacks(75).empty());
  CHECK(gpu.lacks(90) == "code for cc 9.0 (configure with -DCMAKE_CUDA_ARCHITECTURES=native)");
  CHECK(gpu.lacks(100) == "a GPU of cc 10.0 or later");
}

TEST_CASE("other devices are refused by name, and every device by a CPU stage", "[cli]") {
  for (const std::string& stage : kCudaStages)
    for (const char* name : {"tpu", "GPU", "cpu", "", "0", "simt,gpu"}) {
      const Ended ended = run(stage, small_on({"--device", name}));
      CHECK(ended.exit_code == 2);
      check_one_line(stage, ended);
      CHECK(ended.err.find(std::string("--device ") + name) != std::string::npos);
      CHECK(ended.err.find("auto, gpu or simt") != std::string::npos);
    }
  for (const std::string& stage : kStages)
    for (const char* name : {"auto", "gpu", "simt"}) {
      const Ended ended = run(stage, small_on({"--device", name}));
      CHECK(ended.exit_code == 2);
      check_one_line(stage, ended);
      CHECK(ended.err.find("CPU only") != std::string::npos);
    }
}

TEST_CASE("a head dimension that stage 4 doesn't take is refused by name, whatever the device",
          "[cli]") {
  for (const char* d : {"257", "1000"})
    for (const char* device : {"auto", "simt"}) {
      const Ended ended = run(kStage4, {"-N", "20", "-d", d, "--device", device});
      CHECK(ended.exit_code == 2);
      check_one_line(kStage4, ended);
      CHECK(ended.err.find(std::string("d = ") + d) != std::string::npos);
      CHECK(ended.err.find("up to 256") != std::string::npos);
    }
  CHECK(run(kStage4, {"-N", "20", "-d", "256", "--device", "simt", "--repeats", "1"}).exit_code ==
        0);
}
