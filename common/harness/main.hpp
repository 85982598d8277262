// The command line that every stage's executable has.
#pragma once

#include <optional>
#include <vector>

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
/// (the stage before; none for stage 1) on the same input, and reports. Returns an ExitCode. A stage
/// with steps has them all in `steps`: --step chooses one, which is checked against the one before it,
/// and --ladder runs all of them; the first comes after `previous`.
int stage_main(int argc,
               char** argv,
               const std::vector<Stage>& steps,
               const std::optional<Stage>& previous);

}  // namespace fa
