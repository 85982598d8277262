// The safetensors format, float types only.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"q": {"dtype": "F16", "shape": [9, 1021, 64], "data_offsets": [0, 1176192]},
//             …, "__metadata__": {"causal": "true", …}}; offsets count from the header's end
//   data      the tensors, row-major and little-endian, without gaps
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/tensor.hpp"
#include "common/io/named_array.hpp"
#include "common/io/output_file.hpp"

namespace fa {

struct SafetensorsFile {
  std::string name;                             // of the file, for messages
  std::map<std::string, Storage> tensors;       // those that were read, [B, H, N, d]
  std::map<std::string, std::string> metadata;  // empty when the file has none
  std::map<std::string, std::string> contents;  // every tensor: "F16 [9, 1021, 64]", read or not
};

/// Reads the tensors in `only`, or all of them when it is empty; one that isn't there is not an
/// error (see require). F32, F16 and BF16; [N, d] becomes [1, 1, N, d], [H, N, d] becomes
/// [1, H, N, d]; bits are kept as they are.
///
/// Throws Refused with one line (file, problem, found and expected) when the file can't be read,
/// when the header isn't what the format demands (JSON without repeated keys, string metadata,
/// data fully covered by tensors without overlap), and when a tensor to read has another type or
/// number of axes. Types and axes of tensors that aren't read don't matter. Nothing is allocated
/// for a size that the file doesn't have.
SafetensorsFile read_safetensors(const std::filesystem::path& path,
                                 const std::vector<std::string>& only = {});

/// The tensor called `name`. Throws Refused, listing what the file has, when it has none or didn't
/// read it.
const Storage& require(const SafetensorsFile& file, const std::string& name);
const Storage& require(SafetensorsFile&& file, const std::string& name) = delete;  // would dangle

/// Writes the arrays, each with its own shape, and the metadata. Appends to `file`, which must be
/// empty and is to be committed by the caller. Throws Refused when the disk is full, and
/// std::invalid_argument for a name that is used twice or is "__metadata__".
void write_safetensors(OutputFile& file,
                       const std::vector<std::pair<std::string, NamedArray>>& arrays,
                       const std::map<std::string, std::string>& metadata = {});

/// The same in one go: the file at `path` is complete or untouched.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, NamedArray>>& arrays,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace fa
