#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "common/io/output_file.hpp"
#include "tests/io/files.hpp"

using namespace fa;
using Catch::Matchers::ContainsSubstring;

namespace {
std::size_t files_in(const TemporaryDirectory& directory) {
  const std::filesystem::directory_iterator files(directory.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}
}  // namespace

TEST_CASE("output file: appears at commit and not before", "[io][output]") {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "o.bin";
  {
    OutputFile file(path);
    file.write("hello ", 6);
    CHECK_FALSE(std::filesystem::exists(path));
    file.write("world", 5);
    file.commit();
    CHECK(read_bytes(path) == "hello world");
  }
  CHECK(read_bytes(path) == "hello world");
  CHECK(files_in(directory) == 1);
}

TEST_CASE("output file: without commit nothing changes", "[io][output]") {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "o.bin";
  { OutputFile(path).write("new", 3); }
  CHECK(files_in(directory) == 0);
  write_bytes(path, "old");
  { OutputFile(path).write("new", 3); }
  CHECK(read_bytes(path) == "old");
  CHECK(files_in(directory) == 1);
}

TEST_CASE("output file: an existing target is replaced and keeps its permissions", "[io][output]") {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "o.bin";
  write_bytes(path, "old and longer");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  OutputFile file(path);
  file.write("new", 3);
  file.commit();
  CHECK(read_bytes(path) == "new");
  struct stat info = {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("output file: two at a time, long names, links", "[io][output]") {
  TemporaryDirectory directory;
  SECTION("the last commit wins") {
    const std::filesystem::path path = directory / "o.bin";
    OutputFile a(path), b(path);
    a.write("a", 1);
    b.write("b", 1);
    b.commit();
    a.commit();
    CHECK(read_bytes(path) == "a");
    CHECK(files_in(directory) == 1);
  }
  SECTION("a name as long as the file system takes") {
    const std::filesystem::path path = directory / std::string(255, 'x');
    OutputFile(path).commit();
    CHECK(std::filesystem::exists(path));
  }
  SECTION("a link's file is replaced, not the link") {
    std::filesystem::create_directory(directory / "far");
    write_bytes(directory / "far/o.bin", "old");
    std::filesystem::create_symlink("far/o.bin", directory / "link");
    OutputFile file(directory / "link");
    file.write("new", 3);
    file.commit();
    CHECK(std::filesystem::is_symlink(directory / "link"));
    CHECK(read_bytes(directory / "far/o.bin") == "new");
  }
  SECTION("a name without a directory is in the current one") {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(directory.path());
    OutputFile("o.bin").commit();
    std::filesystem::current_path(before);
    CHECK(std::filesystem::exists(directory / "o.bin"));
  }
}

TEST_CASE("output file: places that can't be written are refused at once", "[io][output]") {
  TemporaryDirectory directory;
  const auto refused = [](const std::filesystem::path& path) {
    return refusal([&] { OutputFile file(path); });
  };
  const std::filesystem::path missing = directory / "none/o.bin";
  CHECK(refused(missing) == missing.string() + ": can't be written: no such directory");
  write_bytes(directory / "file", "x");
  CHECK_THAT(refused(directory / "file/o.bin"), ContainsSubstring("Not a directory"));
  CHECK_THAT(refused(directory.path()), ContainsSubstring("found a directory"));
  CHECK_THAT(refused(directory / ""), ContainsSubstring("found a directory's name"));
  CHECK_THAT(refused(""), ContainsSubstring("found a directory's name"));
  CHECK_THAT(refused("/dev/null"), ContainsSubstring("found a pipe or device"));
  std::filesystem::create_symlink("nowhere", directory / "link");
  CHECK_THAT(refused(directory / "link"), ContainsSubstring("found a symbolic link to nothing"));
  CHECK_THAT(refused(directory / std::string(300, 'x')), ContainsSubstring("File name too long"));

  if (::geteuid() != 0) {  // the superuser may write everywhere
    REQUIRE(::chmod((directory / "file").c_str(), 0444) == 0);
    CHECK_THAT(refused(directory / "file"), ContainsSubstring("Permission denied"));
    std::filesystem::create_directory(directory / "closed");
    REQUIRE(::chmod((directory / "closed").c_str(), 0555) == 0);
    CHECK_THAT(refused(directory / "closed/o.bin"), ContainsSubstring("Permission denied"));
  }
}

TEST_CASE("output file: a disk that fills up", "[io][output]") {
  // As good as a full disk: no file of this process may grow beyond 4096 bytes.
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "o.bin";
  write_bytes(path, "old");
  const std::string much(10000, 'x');
  std::string message;

  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  try {
    OutputFile(path).write(much.data(), 10000);
  } catch (const Refused& refused) {
    message = refused.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  CHECK(message == path.string() + ": can't be written: File too large");
  CHECK(read_bytes(path) == "old");
  CHECK(files_in(directory) == 1);
}
