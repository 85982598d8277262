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
  std::string device;    // "CPU" or "GPU"
  Budget budget;         // against the stage before; {0, 0} for the first
  fa::Stage (*stage)();  // as the harness sees it

  std::string source_path() const { return folder + "/" + source; }
};

/// Every stage that exists, in order.
const std::vector<CourseStage>& stages();

/// The stage with that number. Throws Refused, naming those that exist.
const CourseStage& stage_by_number(int number);

}  // namespace fa::course
