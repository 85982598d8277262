// What the writers take: a tensor, or a contiguous array with the shape that the file shall state.
#pragma once

#include "common/attention/tensor.hpp"
#include "common/io/output_file.hpp"
#include "common/io/shape.hpp"

namespace fa {

/// A view; it owns nothing.
struct NamedArray {
  DType dtype;
  Shape shape;     // as the file states it
  AnyTensor view;  // where the elements are, in the order of the file

  /// X [B, H, N, d] with any strides, written with four axes. (Implicit, so that tensors can be
  /// handed to the writers as they are.)
  NamedArray(const AnyTensor& X);

  /// A contiguous row-major array, LSE [B, H, N] say.
  NamedArray(DType type, Shape axes, const void* data);
};

/// Appends the elements, row-major and contiguous whatever the strides are in memory.
void write_elements(OutputFile& file, const AnyTensor& X);

}  // namespace fa
