#include "common/course/subprocess.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "common/attention/problem.hpp"

namespace fa::course {

namespace {

/// Starts the program, with `output` (−1: ours) as its standard output.
pid_t start(const std::vector<std::string>& argv, int output) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::fflush(nullptr);  // the child must not print our buffers again
  const pid_t child = fork();
  if (child < 0) throw Refused(argv.front() + ": no process could be made");
  if (child == 0) {
    if (output >= 0) dup2(output, STDOUT_FILENO);
    execvp(words[0], words.data());
    _exit(127);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Finished run_program(const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw Refused(argv.front() + ": no pipe could be made");
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  const pid_t child = start(argv, ends[1]);
  close(ends[1]);
  Finished finished;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = read(ends[0], buffer.data(), buffer.size());
    if (count > 0) finished.output.append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) break;
  }
  close(ends[0]);
  finished.exit_code = wait_for(child);
  return finished;
}

int run_program_here(const std::vector<std::string>& argv) {
  const int exit_code = wait_for(start(argv, -1));
  if (exit_code == 127) throw Refused(argv.front() + ": not built");
  return exit_code;
}

std::string command_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]{}~#`!") == word.npos;
    std::string quoted = plain ? word : "'";
    if (!plain) {
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      quoted += '\'';
    }
    line += (line.empty() ? "" : " ") + quoted;
  }
  return line;
}

}  // namespace fa::course
