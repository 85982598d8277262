// The .npy format of numpy, float types only.
//
//   6 bytes         \x93NUMPY
//   2 bytes         version: 1.0, 2.0 or 3.0
//   2 or 4 bytes    length of the header, little-endian (2 in version 1)
//   header          a Python dictionary: type, order of the axes, shape (see npy_header.hpp)
//   data            the elements
#pragma once

#include <filesystem>
#include <string>

#include "common/attention/tensor.hpp"
#include "common/io/named_array.hpp"
#include "common/io/output_file.hpp"

namespace fa {

/// Reads '<f4' and '<f2' bit by bit, '<f8' rounded to float32, and their big-endian forms ('>f4');
/// row-major or Fortran order. [N, d] becomes [1, 1, N, d], [H, N, d] becomes [1, H, N, d].
///
/// *note (it may be null) is one line when values were converted: from what, and how many became
/// infinite; else empty. Throws Refused with one line (file, problem, found and expected) for every
/// other file, among them those whose length isn't exactly what type and shape need. Nothing is
/// allocated for a size that the file doesn't have.
Storage read_npy(const std::filesystem::path& path, std::string* note = nullptr);

/// Appends X, in version 1.0. The format knows no bfloat16: that is written as float32, which holds
/// every bfloat16 exactly. Throws Refused when the disk is full.
void write_npy(OutputFile& file, const NamedArray& X);

/// The same in one go: the file at `path` is complete or untouched.
void write_npy(const std::filesystem::path& path, const NamedArray& X);

}  // namespace fa
