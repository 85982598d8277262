// Files for tests, byte by byte.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/attention/problem.hpp"
#include "common/attention/tensor.hpp"
#include "tests/catch.hpp"

namespace fa {

/// A new directory that goes away with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "fa-io-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // ext4 flushes to the disk what overwrites a file: 10 ms each
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// `count` bytes of `value`, least significant first.
inline std::string little_endian(unsigned long long value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i, value >>= 8) bytes += static_cast<char>(value & 0xff);
  return bytes;
}

/// 16- or 32-bit patterns, little-endian.
inline std::string words(const std::vector<unsigned>& values, int bytes_each) {
  std::string bytes;
  for (const unsigned value : values) bytes += little_endian(value, bytes_each);
  return bytes;
}

/// The tensor's memory.
inline std::string bytes_of_tensor(const Storage& X) {
  const AnyTensor& view = X.view();
  const auto* const data = static_cast<const char*>(view.data);
  return {data, data + view.elements() * bytes_of(view.dtype)};
}

inline std::vector<Index> axes_of(const Storage& X) {
  const AnyTensor& view = X.view();
  return {view.B, view.H, view.N, view.d};
}

inline std::vector<float> values_of(const Storage& X) {
  const AnyTensor& view = X.view();
  std::vector<float> values;
  for (Index b = 0; b < view.B; ++b)
    for (Index h = 0; h < view.H; ++h)
      for (Index i = 0; i < view.N; ++i)
        for (Index x = 0; x < view.d; ++x) values.push_back(view.at(b, h, i, x));
  return values;
}

/// What `read()` is refused with; fails unless it is, with one printable line.
template <class Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const Refused& refused) {
    const std::string line = refused.what();
    const auto printable = [](char c) {
      return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
    };
    CAPTURE(line);
    REQUIRE(std::all_of(line.begin(), line.end(), printable));
    REQUIRE(line.size() < 1000);
    return line;
  }
  FAIL("not refused");
  return {};
}

}  // namespace fa
