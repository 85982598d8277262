// Tensors whose element type is known at run time: what files and the command line give.
#pragma once

#include <memory>
#include <vector>

#include "common/attention/view.hpp"

namespace fa {

/// A view [B, H, N, d] of elements of type `dtype`; strides count elements, the last axis is
/// contiguous.
struct AnyTensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  Index B = 0;
  Index H = 0;
  Index N = 0;
  Index d = 0;
  Index batch_stride = 0;
  Index head_stride = 0;
  Index row_stride = 0;

  /// The typed view; T must be the type that `dtype` names (T may be const).
  template <class T>
  Tensor<T> as() const {
    return {static_cast<T*>(data), B, H, N, d, batch_stride, head_stride, row_stride};
  }

  Index elements() const { return B * H * N * d; }

  /// Element (b, h, i, x) as float32.
  float at(Index b, Index h, Index i, Index x) const {
    return dispatch(dtype, [&](auto zero) {
      using T = decltype(zero);
      return static_cast<float>(as<const T>().head(b, h)[i][x]);
    });
  }
};

/// A tensor that owns contiguous row-major storage [B, H, N, d], zero at first. Throws
/// std::bad_alloc.
class Storage {
 public:
  Storage() = default;
  Storage(DType dtype, Index B, Index H, Index N, Index d)
      : bytes_(static_cast<std::size_t>(B * H * N * d * bytes_of(dtype))),
        view_{bytes_.data(), dtype, B, H, N, d, H * N * d, N * d, d} {}

  Storage(Storage&&) = default;  // a moved vector keeps its address, so the view stays right
  Storage& operator=(Storage&&) = default;

  const AnyTensor& view() const { return view_; }

 private:
  std::vector<unsigned char> bytes_;
  AnyTensor view_;
};

}  // namespace fa
