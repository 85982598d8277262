// A file that appears complete or not at all.
#pragma once

#include <filesystem>

#include "common/attention/types.hpp"
#include "common/io/descriptor.hpp"

namespace fa {

/// Opened before a long computation, so that an unwritable place is refused at once, written after
/// it, and visible under its name from commit() on.
///
/// Until then the bytes are in a temporary file next to the target ("NAME.tmp-…"), which the
/// destructor removes; an existing target stays as it is. Only a program that is killed leaves the
/// temporary behind. Every function throws Refused with one line, "FILE: problem".
class OutputFile {
 public:
  /// Refuses a folder that isn't there or isn't writable, and a target that is a folder, a device
  /// or write-protected. A symbolic link is followed: its file is replaced, not the link.
  explicit OutputFile(const std::filesystem::path& target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. Refuses when the disk is full.
  void write(const void* data, Index bytes);

  /// Renames the temporary over the target, in one step for whoever looks; nothing can be written
  /// afterwards. The target keeps the permissions it had.
  void commit();

 private:
  std::string name_;  // as it was given, for messages
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty: none, or no longer ours
  Descriptor fd_;
};

}  // namespace fa
