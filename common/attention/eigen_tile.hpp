// The few words that let a stage hand its tiles to Eigen.
#pragma once

#include <Eigen/Core>

#include "common/attention/scratch.hpp"

namespace fa {

using EigenMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using EigenStride = Eigen::OuterStride<Eigen::Dynamic>;
using EigenView = Eigen::Map<EigenMatrix, Eigen::Unaligned, EigenStride>;
using EigenConstView = Eigen::Map<const EigenMatrix, Eigen::Unaligned, EigenStride>;

/// The same rows and columns, for Eigen.
inline EigenView eigen(Matrix<float> M) {
  return {M.data, M.rows, M.cols, EigenStride(M.row_stride)};
}
inline EigenConstView eigen(Matrix<const float> M) {
  return {M.data, M.rows, M.cols, EigenStride(M.row_stride)};
}

/// Rows of Q, K or V in float32, as Eigen's product needs them: float32 rows are used where they
/// are, 16-bit rows are converted into a tile of their own.
template <class T>
class FloatTile {
 public:
  FloatTile(Index rows, Index d) : tile_(rows, d) {}

  /// Rows [first, last) of M, valid until the next load.
  EigenConstView load(Matrix<const T> M, Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index x = 0; x < M.cols; ++x) tile_[i - first][x] = M[i][x];
    return eigen(Matrix<const float>(tile_.middle_rows(0, last - first)));
  }

 private:
  Scratch<float> tile_;
};

template <>
class FloatTile<float> {
 public:
  FloatTile(Index, Index) {}

  EigenConstView load(Matrix<const float> M, Index first, Index last) {
    return eigen(M.middle_rows(first, last - first));
  }
};

}  // namespace fa
