// A POSIX file descriptor with an owner.
#pragma once

#include <string>

namespace fa {

/// Closes what it holds when it goes away. −1 holds nothing.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void reset(int fd);

  /// False when the system reports that something written before is lost (errno says why).
  bool close();

 private:
  int fd_;
};

/// The system's words for the last error: "Permission denied".
std::string system_error();

}  // namespace fa
