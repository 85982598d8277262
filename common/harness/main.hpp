// The command line that every stage's executable has.
#pragma once

#include <optional>

#include "common/harness/stage.hpp"

namespace fa {

/// Exit codes of the executables.
enum ExitCode {
  kRight = 0,       // the output is within tolerance of the oracle and of the stage before
  kMismatch = 1,    // it is not
  kRefused = 2,     // bad usage or input: one line on standard error says what
  kCannotRun = 77,  // the device can't run it (CTest's and automake's code for "skipped")
};

/// Parses the command line, runs `stage`, checks it against the oracle and against `previous`
/// (the stage before; none for stage 1) on the same input, and reports. Returns an ExitCode.
int stage_main(int argc, char** argv, const Stage& stage, const std::optional<Stage>& previous);

}  // namespace fa
