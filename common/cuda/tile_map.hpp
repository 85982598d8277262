// What a tile map can describe: the same limits on a GPU and in the emulator.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/attention/view.hpp"

namespace fa {

/// Throws std::invalid_argument unless TMA can copy boxes of `rows` rows by `columns` columns of a
/// head of X (CUDA driver API, "cuTensorMapEncodeTiled"), and pages of them are swizzled by row.
template <class T>
void require_tile_map(const char* name, const Tensor<T>& X, int rows, int columns) {
  static_assert(sizeof(T) == 2, "tile maps are of float16 and bfloat16");
  const auto require = [&](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("tile_map of ") + name + ": " + what);
  };
  require(columns > 0 && columns % 64 == 0, "columns must be a multiple of 64");
  require(X.d == columns, "d must be the box's columns");
  require(rows > 0 && rows <= 256 && rows % 8 == 0, "rows must be a multiple of 8, at most 256");
  const auto of_16_bytes = [](Index size, Index stride) { return size <= 1 || stride % 8 == 0; };
  require(reinterpret_cast<std::uintptr_t>(X.data) % 16 == 0 && of_16_bytes(X.N, X.row_stride) &&
              of_16_bytes(X.H, X.head_stride) && of_16_bytes(X.B, X.batch_stride),
          "rows must begin at multiples of 16 bytes");
}

/// Pages of 64 columns in a box: a load brings all of a row, a store takes one page, as soon as it is
/// written.
template <class T>
constexpr int pages_of_box(int columns) {
  return std::is_const_v<T> ? columns / 64 : 1;
}

}  // namespace fa
