// Runs another program and takes what it prints.
#pragma once

#include <string>
#include <vector>

namespace fa::course {

struct Finished {
  int exit_code = 0;   // 128 + the signal's number when a signal ended it
  std::string output;  // its standard output; standard error goes where ours goes
};

/// Runs argv[0] (a path, or a name that is looked up in PATH) and waits for it. Exit code 127 when
/// it can't be started.
Finished run_program(const std::vector<std::string>& argv);

/// The same, with its output where ours goes; returns the exit code.
int run_program_here(const std::vector<std::string>& argv);

/// The words as one line that a shell would read as the same words.
std::string command_line(const std::vector<std::string>& argv);

}  // namespace fa::course
