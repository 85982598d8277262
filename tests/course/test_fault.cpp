// The planted mistakes and what the course says of devices.
#include "common/course/fault.hpp"

#include "common/attention/problem.hpp"
#include "common/course/stages.hpp"
#include "tests/catch.hpp"

using namespace fa::course;

TEST_CASE("Each planted mistake is named, by file and kernel") {
  const auto says = [](const std::string& name, const std::vector<std::string>& parts) {
    const std::string text = fault_text(name);
    INFO(text);
    for (const std::string& part : parts) {
      INFO(part);
      CHECK(text.find(part) != std::string::npos);
    }
  };
  const std::string file = "   1. common/simt/planted.cu:";
  says("no_barrier", {file, ": race on shared memory", "\n      turn_round, block 0"});
  says("tail",
       {file, ": global access out of bounds (56 times)", "x[100]", "100 of 100 elements right"});
  says("no_wait", {file, ": data of a copy touched", "at once:        32 of 32", "is the same"});
  CHECK(fault_names().size() == 3);
  CHECK_THROWS_AS(fault_text("nonsense"), fa::Refused);
}

TEST_CASE("A device has a name of one word") {
  CHECK(short_device("cpu") == "CPU");
  CHECK(short_device("emulator (simt), 2 threads") == "simt");
  CHECK(short_device("NVIDIA H200 (cc 9.0)") == "H200");
  CHECK(short_device("NVIDIA GeForce RTX 4090 (cc 8.9)") == "RTX 4090");
  CHECK(short_device("Tesla T4 (cc 7.5)") == "T4");
  CHECK(short_device("NVIDIA RTX 6000 Ada Generation (cc 8.9)") == "GPU");
}
