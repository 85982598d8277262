// Measures the shapes that the notes quote, and keeps the numbers in notes/results.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/attention/types.hpp"

namespace fa::course {

/// Where things are.
struct Places {
  std::filesystem::path root;   // the repository
  std::filesystem::path build;  // the programs
};

/// One head of N queries and keys, d = 64, float32, and the stages that run it.
struct Shape {
  std::string name;
  Index N;
  int threads;  // 0: all cores
  std::vector<int> stages;
  double seconds;  // that each stage may take
};

/// N = 128 to 4096, every stage, one thread: stages 1 and 2 share out whole heads, so one head
/// keeps them on one core; with one thread all do the same work with the same means. CUDA stages
/// are left out where there is no GPU: the emulator's time would say nothing about them.
std::vector<Shape> scaling_shapes(double seconds);

/// The machine, the day, `command`, and under "runs" what each stage took for each shape.
nlohmann::ordered_json measure_shapes(const std::vector<Shape>& shapes,
                                      const std::string& command,
                                      bool print);

struct RecordOptions {
  std::string name;                // notes/results/NAME.json
  std::vector<std::string> words;  // a ./learn command whose output is kept; none: measurements
};

/// Returns an exit code. Throws Refused when the file can't be written.
int run_record(const Places& places, const RecordOptions& options);

}  // namespace fa::course
