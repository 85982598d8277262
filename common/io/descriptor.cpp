#include "common/io/descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace fa {

void Descriptor::reset(int fd) {
  close();
  fd_ = fd;
}

bool Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0;
}

std::string system_error() { return std::generic_category().message(errno); }

}  // namespace fa
