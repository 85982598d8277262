// Views: pointers that know their shape. They own nothing and cost nothing.
//
//   Matrix<T>  [rows, cols]     one head of Q, K, V or O.  M[i] is a pointer to row i.
//   Tensor<T>  [B, H, N, d]     all of them.               X.head(b, h) is the Matrix of one head.
//
// The last axis is contiguous; rows, heads and batch items may lie any distance apart, so a view
// also describes a slice of a larger buffer, or [B, N, H, d] storage. Strides count elements.
#pragma once

#include "common/attention/types.hpp"

namespace fa {

template <class T>
struct Matrix {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index row_stride = 0;

  FA_HOST_DEVICE T* operator[](Index i) const { return data + i * row_stride; }

  /// Rows [first, first + count).
  FA_HOST_DEVICE Matrix middle_rows(Index first, Index count) const {
    return {(*this)[first], count, cols, row_stride};
  }

  FA_HOST_DEVICE operator Matrix<const T>() const { return {data, rows, cols, row_stride}; }
};

template <class T>
struct Tensor {
  T* data = nullptr;
  Index B = 0;
  Index H = 0;
  Index N = 0;
  Index d = 0;
  Index batch_stride = 0;
  Index head_stride = 0;
  Index row_stride = 0;

  FA_HOST_DEVICE Matrix<T> head(Index b, Index h) const {
    return {data + b * batch_stride + h * head_stride, N, d, row_stride};
  }

  FA_HOST_DEVICE operator Tensor<const T>() const {
    return {data, B, H, N, d, batch_stride, head_stride, row_stride};
  }
};

/// A view of contiguous row-major storage [B, H, N, d] (the papers' BHND).
template <class T>
Tensor<T> contiguous(T* data, Index B, Index H, Index N, Index d) {
  return {data, B, H, N, d, H * N * d, N * d, d};
}

}  // namespace fa
