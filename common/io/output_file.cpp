#include "common/io/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/attention/problem.hpp"

namespace fa {

namespace fs = std::filesystem;

namespace {
// A name takes at most 255 bytes on every common file system: room for the suffix.
constexpr std::size_t kNameBytes = 200;

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw Refused(fmt::format("{}: {}", name, problem));
}

// The file that a chain of links ends at, or `path` itself.
fs::path resolved(const std::string& name, const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
  const fs::path end = fs::canonical(path, error);
  if (error) refuse(name, "can't be written: found a symbolic link to nothing");
  return end;
}
}  // namespace

OutputFile::OutputFile(const fs::path& target) : name_(target.string()) {
  target_ = resolved(name_, target);
  if (!target_.has_filename()) refuse(name_, "found a directory's name, expected a file's");

  struct stat existing = {};
  const bool exists = ::stat(target_.c_str(), &existing) == 0;
  if (!exists && errno != ENOENT) refuse(name_, "can't be written: " + system_error());
  if (exists && S_ISDIR(existing.st_mode))
    refuse(name_, "can't be written: found a directory, expected a file or a new name");
  // Renaming over /dev/null would replace the device.
  if (exists && !S_ISREG(existing.st_mode))
    refuse(name_, "can't be written: found a pipe or device, expected a file or a new name");
  // Renaming asks only for the folder's permission: the file's own is respected here.
  if (exists && ::access(target_.c_str(), W_OK) != 0)
    refuse(name_, "can't be written: " + system_error());

  const std::string start = target_.filename().string().substr(0, kNameBytes);
  for (int attempt = 0; fd_.get() < 0; ++attempt) {
    temporary_ = target_.parent_path() / fmt::format("{}.tmp-{}-{}", start, ::getpid(), attempt);
    fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_.get() >= 0) break;
    if (errno == EEXIST) continue;
    const std::string problem = errno == ENOENT ? "no such directory" : system_error();
    refuse(name_, "can't be written: " + problem);
  }
  // Best effort: a file system without permissions says no, and that is no reason to give up.
  if (exists) ::fchmod(fd_.get(), existing.st_mode & 0777);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, Index bytes) {
  for (Index done = 0; done < bytes;) {
    const auto put = ::write(
        fd_.get(), static_cast<const char*>(data) + done, static_cast<std::size_t>(bytes - done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(name_, "can't be written: " + system_error());
    done += static_cast<Index>(put);
  }
}

void OutputFile::commit() {
  // Network file systems report a full disk only here.
  if (!fd_.close()) refuse(name_, "can't be written: " + system_error());
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    refuse(name_, "can't be written: " + system_error());
  temporary_.clear();
}

}  // namespace fa
