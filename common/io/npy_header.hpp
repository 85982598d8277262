// The header of a .npy file: a Python dictionary in text,
//   {'descr': '<f4', 'fortran_order': False, 'shape': (9, 1021, 64), }
#pragma once

#include <string>
#include <string_view>

#include "common/io/shape.hpp"

namespace fa {

struct NpyHeader {
  std::string descr;  // the element type, "<f4": byte order, kind, bytes
  bool fortran_order = false;
  Shape shape;
};

/// Reads the dictionary: exactly these three keys in any order, either kind of quotes, any white
/// space, an optional comma before a closing bracket. Throws Refused ("WHERE: problem") for
/// anything else; a structured type is refused by name.
NpyHeader parse_npy_header(const std::string& where, std::string_view text);

/// The dictionary in text, as numpy writes it.
std::string npy_header_text(const NpyHeader& header);

}  // namespace fa
