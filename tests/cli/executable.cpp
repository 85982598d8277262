#include "tests/cli/executable.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/catch.hpp"

namespace fa::cli {

namespace {

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// In the child: never returns.
[[noreturn]] void become(const std::string& program,
                         std::vector<char*> argv,
                         const std::string& out,
                         const std::string& err,
                         double address_space) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::dup2(::open(out.c_str(), flags, 0600), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), flags, 0600), STDERR_FILENO);
  if (address_space > 0) {
    const rlimit limit{static_cast<rlim_t>(address_space), static_cast<rlim_t>(address_space)};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

nlohmann::json Ended::json() const {
  INFO(err);
  nlohmann::json parsed = nlohmann::json::parse(out, nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  return parsed;
}

Ended run(const std::string& program,
          const std::vector<std::string>& arguments,
          const std::string& flaw,
          double address_space) {
  const TemporaryFolder folder;
  const std::string out = folder / "out", err = folder / "err";
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv("FA_FLAW", flaw.c_str(), 1);

  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) become(program, argv, out, err, address_space);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  Ended ended;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  ended.out = contents(out);
  ended.err = contents(err);
  return ended;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "fa-cli-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    result.push_back(entry.path().filename().string());
  return result;
}

}  // namespace fa::cli
