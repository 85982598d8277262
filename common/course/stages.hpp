// The stages as the course knows them: one line each, in stages.cpp.
#pragma once

#include <functional>
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
  std::string step;    // "5a", of a stage with steps; empty: a stage without
  std::string title;   // "online softmax"
  std::string folder;  // "stage2_online_softmax_cpu", also its executable's name
  std::string source;  // the file with the algorithm, inside the folder
  bool on_device;      // a CUDA stage: on the GPU where there is one, else in the emulator
  Budget budget;       // against the stage before; {0, 0} for the first
  std::function<fa::Stage()> stage;  // as the harness sees it

  /// "3", "5.5a".
  std::string label() const;

  std::string source_path() const { return folder + "/" + source; }

  /// What it runs on here: "CPU", "simt" (the emulator) or the GPU's name, as in short_device.
  std::string device_here() const;

  /// It runs at a speed that is its own: on a CPU, or on a GPU that is there.
  bool can_be_timed() const;
};

/// A run's device in a word: "NVIDIA H200 (cc 9.0)" is "H200", the emulator "simt", "cpu" is "CPU".
/// A GPU whose name is long is "GPU".
std::string short_device(const std::string& device);

/// Every stage that exists, in order; of one with steps the default step.
const std::vector<CourseStage>& stages();

/// The steps of stage 5, in order. The last one is the default.
const std::vector<CourseStage>& steps();

/// What a stage or a step is compared with: the one before it. Null for the first.
const CourseStage* before(const CourseStage& stage);

/// The stage with that number. Throws Refused, naming those that exist.
const CourseStage& stage_by_number(int number);

/// The stage, or the step, with that label: "3", "5" (the default step), "5.2", "5.5a". Throws
/// Refused, naming those that exist.
const CourseStage& stage_by_label(const std::string& label);

}  // namespace fa::course
