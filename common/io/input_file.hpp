// A file that is read by position and may hold anything.
#pragma once

#include <filesystem>

#include "common/attention/types.hpp"
#include "common/io/descriptor.hpp"

namespace fa {

/// A regular file, open for reading. Every function throws Refused with one line, "FILE: problem".
class InputFile {
 public:
  /// Refuses what isn't there, a directory, a pipe or device (without waiting for it), and what
  /// this user may not read.
  explicit InputFile(const std::filesystem::path& path);

  /// The file's name as it was given, for messages.
  const std::string& name() const { return name_; }

  /// In bytes, as it was when the file was opened. No size that the file itself states is to be
  /// believed before it was compared with this one.
  Index size() const { return size_; }

  /// Reads bytes [offset, offset + bytes), which must lie inside size(). Refuses a file that
  /// shrank meanwhile.
  void read(Index offset, void* destination, Index bytes) const;

  /// Refuses a file whose tensors need more memory than the machine has. A sparse file of terabytes
  /// costs its author nothing, and Linux would hand out the memory now and kill the program later.
  void require_memory(Index bytes) const;

 private:
  std::string name_;
  Descriptor fd_;
  Index size_ = 0;
};

}  // namespace fa
