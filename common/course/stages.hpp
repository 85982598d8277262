// The stages as the course knows them: one line each, in stages.cpp.
#pragma once

#include <string>
#include <vector>

#include "common/harness/stage.hpp"

namespace fa::course {

/// How much a stage may differ from the one before it, in `git diff -w`'s counts.
struct Budget {
  int added = 0;
  int hunks = 0;  // 0: no limit
};

struct CourseStage {
  int number = 0;
  std::string title;     // "online softmax"
  std::string folder;    // "stage2_online_softmax_cpu", also its executable's name
  std::string source;    // the file with the algorithm, inside the folder
  bool on_device;        // a CUDA stage: on the GPU where there is one, else in the emulator
  Budget budget;         // against the stage before; {0, 0} for the first
  fa::Stage (*stage)();  // as the harness sees it

  std::string source_path() const { return folder + "/" + source; }

  /// What it runs on here: "CPU", "simt" (the emulator) or the GPU's name, as in short_device.
  std::string device_here() const;

  /// It runs at a speed that is its own: on a CPU, or on a GPU that is there.
  bool can_be_timed() const;
};

/// A run's device in a word: "NVIDIA H200 (cc 9.0)" is "H200", the emulator "simt", "cpu" is "CPU".
/// A GPU whose name is long is "GPU".
std::string short_device(const std::string& device);

/// Every stage that exists, in order.
const std::vector<CourseStage>& stages();

/// The stage with that number. Throws Refused, naming those that exist.
const CourseStage& stage_by_number(int number);

}  // namespace fa::course
