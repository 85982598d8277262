#include "common/io/named_array.hpp"

#include <utility>

namespace fa {

namespace {
bool is_contiguous(const AnyTensor& X) {
  return X.row_stride == X.d && X.head_stride == X.N * X.d && X.batch_stride == X.H * X.N * X.d;
}

// AnyTensor has no const version; a writer only reads.
AnyTensor one_row(DType dtype, const void* data, Index elements) {
  return {const_cast<void*>(data), dtype, 1, 1, 1, elements, elements, elements, elements};
}
}  // namespace

NamedArray::NamedArray(const AnyTensor& X) : dtype(X.dtype), shape{X.B, X.H, X.N, X.d}, view(X) {}

NamedArray::NamedArray(DType type, Shape axes, const void* data)
    : dtype(type),
      shape(std::move(axes)),
      view(one_row(dtype, data, elements_of("array to write", shape))) {}

void write_elements(OutputFile& file, const AnyTensor& X) {
  const Index element_bytes = bytes_of(X.dtype);
  if (is_contiguous(X)) {
    file.write(X.data, X.elements() * element_bytes);
    return;
  }
  // A head at a time: one system call for each row would take longer than copying.
  std::vector<unsigned char> head(static_cast<std::size_t>(X.N * X.d * element_bytes));
  const Index row_bytes = X.d * element_bytes;
  for (Index b = 0; b < X.B; ++b)
    for (Index h = 0; h < X.H; ++h) {
      const auto* const from = static_cast<const unsigned char*>(X.data) +
                               (b * X.batch_stride + h * X.head_stride) * element_bytes;
      if (row_bytes > 0)
        for (Index i = 0; i < X.N; ++i)
          std::memcpy(head.data() + i * row_bytes,
                      from + i * X.row_stride * element_bytes,
                      static_cast<std::size_t>(row_bytes));
      file.write(head.data(), static_cast<Index>(head.size()));
    }
}

}  // namespace fa
