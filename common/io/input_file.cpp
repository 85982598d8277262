#include "common/io/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/attention/problem.hpp"

namespace fa {

InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
  // Opening a pipe would wait for its writer: O_NONBLOCK doesn't, and changes nothing for a file.
  fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (fd_.get() < 0 || ::fstat(fd_.get(), &info) != 0) {
    if (errno == ENOENT) throw Refused(fmt::format("{}: no such file", name_));
    throw Refused(fmt::format("{}: can't be read: {}", name_, system_error()));
  }
  if (S_ISDIR(info.st_mode))
    throw Refused(fmt::format("{}: found a directory, expected a file", name_));
  if (!S_ISREG(info.st_mode))
    throw Refused(fmt::format("{}: found a pipe or device, expected a regular file", name_));
  size_ = info.st_size;
}

void InputFile::read(Index offset, void* destination, Index bytes) const {
  // One call as a rule; Linux reads at most 2 GiB at a time.
  for (Index done = 0; done < bytes;) {
    const auto got = ::pread(fd_.get(),
                             static_cast<char*>(destination) + done,
                             static_cast<std::size_t>(bytes - done),
                             static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Refused(fmt::format("{}: can't be read: {}", name_, system_error()));
    if (got == 0)
      throw Refused(fmt::format(
          "{}: ends at byte {} while being read, expected {} bytes", name_, offset + done, size_));
    done += static_cast<Index>(got);
  }
}

void InputFile::require_memory(Index bytes) const {
  const Index pages = ::sysconf(_SC_PHYS_PAGES);
  const Index page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0 && bytes / page_bytes >= pages)
    throw Refused(fmt::format("{}: its tensors need {} bytes, this machine has {} bytes of memory",
                              name_,
                              bytes,
                              pages * page_bytes));
}

}  // namespace fa
