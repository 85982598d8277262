// A stage's program, run and its report read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/course/record.hpp"
#include "common/course/stages.hpp"

namespace fa::course {

struct StageRun {
  int exit_code = 0;     // of ExitCode in common/harness/main.hpp
  nlohmann::json facts;  // what --json prints; null when there was nothing to print
};

/// Runs the stage's program with `flags` and --json. Throws Refused when it isn't built.
StageRun run_stage(const Places& places, const CourseStage& stage, std::vector<std::string> flags);

}  // namespace fa::course
