// Strips of queries and panels of keys: tiles kept in the order in which Eigen multiplies them.
//
// Eigen's product first copies ("packs") both operands: the left one into strips of rows, 48 of
// them with AVX-512 and 24 with AVX2, the right one into panels of 4 columns. Its inner loop then
// keeps 48 × 4 sums in registers. Tiles that are in that order from the start need no copy:
//
//                 strip: stored by columns              panel: stored by rows
//                  x = 0   1   2   …                     c = 0 1 2 3
//      query 0        |   |   |                  x = 0       → → → →
//            …        |   |   |                      1       → → → →
//            47       ↓   ↓   ↓                      …       …
//
//   S = scale · Q Kᵀ     Q: strips, filled once for all keys     Kᵀ: panels, once for all strips
//   O = O + P V          P: the strip S, where it is             V: panels, once for all strips
//
// The softmax gains too: its maxima and sums run side by side in the rows of a strip, a vector of
// queries at a time, and nothing has to be added up across a vector.
#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "common/attention/exp_minus.hpp"
#include "common/attention/mask.hpp"
#include "common/attention/scratch.hpp"

namespace fa {

namespace detail {
using Gebp = Eigen::internal::gebp_traits<float, float>;
}

constexpr Index kLanes = detail::Gebp::LhsProgress;  // floats in a vector
constexpr Index kStrip = detail::Gebp::mr;           // rows of a strip
constexpr Index kPanel = detail::Gebp::nr;           // columns of a panel

/// count, rounded up to a multiple of `unit`.
constexpr Index round_up(Index count, Index unit) { return (count + unit - 1) / unit * unit; }

/// A matrix [depth, cols] in panels.
struct Panels {
  const float* data = nullptr;
  Index depth = 0;
  Index cols = 0;          // a multiple of kPanel
  Index panel_stride = 0;  // from one panel to the next

  /// Columns [first, first + count), both multiples of kPanel.
  Panels middle_cols(Index first, Index count) const {
    return {data + first / kPanel * panel_stride, depth, count, panel_stride};
  }
};

/// One row of a strip.
struct StripRow {
  float* data = nullptr;
  Index stride = 0;
  Index cols = 0;

  float& operator[](Index x) const { return data[x * stride]; }

  void copy_to(float* to, Index count) const {
    for (Index x = 0; x < count; ++x) to[x] = (*this)[x];
  }

  /// In a row of scores that begins with key j0's, those of keys that aren't in `seen` become −inf.
  void hide_all_but(KeyRange seen, Index j0) const {
    for (Index j = j0; j < seen.first; ++j) (*this)[j - j0] = -INFINITY;
    for (Index j = seen.last; j < j0 + cols; ++j) (*this)[j - j0] = -INFINITY;
  }
};

/// A strip of at most kStrip rows. `height` counts them in whole vectors: rows that only fill the
/// last vector up are computed like the others, and nobody looks at them.
struct Strip {
  float* data = nullptr;  // aligned to 64 bytes
  Index height = 0;       // a multiple of kLanes
  Index cols = 0;

  float* operator[](Index x) const { return data + x * height; }  // column x
  StripRow row(Index i) const { return {data + i, height, cols}; }

  /// This strip = this strip + factor · A B.
  void add_product(float factor, const Strip& A, const Panels& B) const {
    using Result =
        Eigen::internal::blas_data_mapper<float, Index, Eigen::ColMajor, Eigen::Unaligned, 1>;
    Eigen::internal::gebp_kernel<float, float, Index, Result, kStrip, kPanel, false, false> gebp;
    gebp(Result(data, height),
         A.data,
         B.data,
         height,
         B.depth,
         B.cols,
         factor,
         B.depth,
         B.panel_stride / kPanel);
  }
};

/// Queries in float32, strip by strip: a tile of Q or O, or one strip of S.
class StripTile {
 public:
  StripTile(Index rows, Index cols) : cells_(round_up(rows, kLanes), round_up(cols, kPanel)) {}

  /// The memory of such a tile, in floats.
  static constexpr Index floats(Index rows, Index cols) {
    return round_up(rows, kLanes) * round_up(cols, kPanel);
  }

  /// Becomes rows [first, last) of M.
  template <class T>
  void load(Matrix<const T> M, Index first, Index last) {
    start(first, last);
    for (Index i = first; i < last; i += kStrip) {
      const Strip to = strip(i);
      for (Index r = 0; r < to.height; r += kLanes)
        if (i + r + kLanes <= last)
          for (Index x = 0; x < M.cols; ++x)
            for (Index c = r; c < r + kLanes; ++c) to[x][c] = float(M[i + c][x]);
        else
          for (Index x = 0; x < M.cols; ++x)
            for (Index c = r; c < r + kLanes; ++c)
              to[x][c] = i + c < last ? float(M[i + c][x]) : 0.0f;
    }
  }

  /// Becomes rows [first, last) of zeros.
  void clear(Index first, Index last) {
    start(first, last);
    std::fill_n(cells_.data, cells_.rows * cells_.cols, 0.0f);
  }

  /// The strip that begins with row i: first, first + kStrip, …
  Strip strip(Index i) const {
    return {cells_[i - first_], round_up(std::min(last_ - i, kStrip), kLanes), cells_.cols};
  }
  StripRow row(Index i) const {
    const Index r = (i - first_) % kStrip;
    return strip(i - r).row(r);
  }

  /// The first strip becomes factor · A B, and takes that shape.
  Strip product(float factor, const Strip& A, const Panels& B) const {
    constexpr Index few = 8 * kPanel;  // columns, whose zeros are still in the nearest cache
    for (Index j = 0; j < B.cols; j += few) {
      const Strip part{cells_[0] + j * A.height, A.height, std::min(few, B.cols - j)};
      std::fill_n(part.data, part.height * part.cols, 0.0f);
      part.add_product(factor, A, B.middle_cols(j, part.cols));
    }
    return {cells_[0], A.height, B.cols};
  }

 private:
  void start(Index first, Index last) {
    first_ = first;
    last_ = last;
  }

  Scratch<float> cells_;
  Index first_ = 0;
  Index last_ = 0;
};

/// A tile of keys in float32, in panels: V as it is, or K transposed. Columns that fill the last panel
/// up, and rows that fill the depth of V up to a multiple of kPanel, are 0.
class PanelTile {
 public:
  PanelTile(Index depth, Index cols) : cells_(round_up(cols, kPanel) / kPanel, room(depth)) {}

  /// The memory of such a tile, in floats.
  static constexpr Index floats(Index depth, Index cols) {
    return round_up(cols, kPanel) / kPanel * room(depth);
  }

  /// Becomes rows [first, last) of M.
  template <class T>
  void load(Matrix<const T> M, Index first, Index last) {
    start(first, round_up(last - first, kPanel), last - first, M.cols);
    for (Index j = first; j < last; ++j) {
      const T* from = M[j];
      float* to = cells_[0] + (j - first) * kPanel;
      for (Index x = kPanel; x <= M.cols; x += kPanel, from += kPanel, to += cells_.cols) {
        float row[kPanel];
        for (Index c = 0; c < kPanel; ++c) row[c] = float(from[c]);
        std::copy_n(row, kPanel, to);
      }
      std::copy_n(from, M.cols % kPanel, to);
    }
  }

  /// Becomes rows [first, last) of M as columns.
  template <class T>
  void load_transposed(Matrix<const T> M, Index first, Index last) {
    start(first, M.cols, kPanel, last - first);
    for (Index j = first; j < last; j += kPanel) {
      float* to = cells_[(j - first) / kPanel];
      if (j + kPanel <= last)
        for (Index x = 0; x < M.cols; ++x)
          for (Index c = 0; c < kPanel; ++c) to[x * kPanel + c] = float(M[j + c][x]);
      else
        for (Index x = 0; x < M.cols; ++x)
          for (Index c = 0; c < last - j; ++c) to[x * kPanel + c] = float(M[j + c][x]);
    }
  }

  /// Columns [j0, j1) of the transposed tile, counted like the rows that were loaded: j0 is a
  /// multiple of kPanel behind the first one, j1 is rounded up to such.
  Panels columns(Index j0, Index j1) const {
    return {cells_[(j0 - first_) / kPanel], depth_, round_up(j1 - j0, kPanel), cells_.cols};
  }
  /// Rows [j0, j1), likewise.
  Panels rows(Index j0, Index j1) const {
    return {cells_[0] + (j0 - first_) * kPanel,
            round_up(j1 - j0, kPanel),
            cells_.rows * kPanel,
            cells_.cols};
  }

 private:
  /// Floats from panel to panel: a cache line more than they need. Panels a power of two apart
  /// would push each other out of the cache while a row of V is spread over all of them.
  static constexpr Index room(Index depth) { return round_up(depth, kPanel) * kPanel + 16; }

  void start(Index first, Index depth, Index rows, Index cols) {
    first_ = first;
    depth_ = depth;
    if (rows % kPanel != 0 || cols % kPanel != 0)
      std::fill_n(cells_.data, cells_.rows * cells_.cols, 0.0f);
  }

  Scratch<float> cells_;
  Index first_ = 0;
  Index depth_ = 0;
};

/// max[i] = the largest score of row i, for all rows of a strip; −inf where there is none.
inline void row_max(const Strip& S, float* max) {
  for (Index i = 0; i < S.height; i += kLanes) {
    float largest[kLanes];
    std::fill_n(largest, kLanes, -INFINITY);
    for (Index j = 0; j < S.cols; j += 2) {
      const float *s = S[j] + i, *t = S[j + 1] + i;
#pragma omp simd simdlen(kLanes)
      for (Index r = 0; r < kLanes; ++r) {
        const float larger = s[r] < t[r] ? t[r] : s[r];
        largest[r] = largest[r] < larger ? larger : largest[r];
      }
    }
    std::copy_n(largest, kLanes, max + i);
  }
}

/// A strip of scores becomes a strip of weights, s ← exp(s − m), with one m a row; sum[i] = the sum
/// of row i.
///
/// The rules of exp_minus: s = −inf gives 0, NaN stays NaN. m is at least every s of its row. This
/// isn't Eigen's exp, whose exp(−inf) is 2.9e-39, and which takes a second loop for the sum.
inline void exp_minus_and_sum(const Strip& S, const float* m, float* sum) {
  constexpr Index few = 8 * kPanel;  // weights are summed a few at a time: it errs less
  for (Index i = 0; i < S.height; i += kLanes) {
    float at[kLanes], total[kLanes];
    std::fill_n(total, kLanes, 0.0f);
    // Where all are −inf the weights are 0, not NaN.
    for (Index r = 0; r < kLanes; ++r) at[r] = m[i + r] == -INFINITY ? 0 : m[i + r];
    for (Index j0 = 0; j0 < S.cols; j0 += few) {
      float part[kLanes];
      std::fill_n(part, kLanes, 0.0f);
      for (Index j = j0; j < std::min(j0 + few, S.cols); j += 2) {
        float *s = S[j] + i, *t = S[j + 1] + i;
#pragma omp simd simdlen(kLanes)
        for (Index r = 0; r < kLanes; ++r) {
          s[r] = detail::exp_of_negative(s[r] - at[r]);
          t[r] = detail::exp_of_negative(t[r] - at[r]);
          part[r] += s[r] + t[r];
        }
      }
      for (Index r = 0; r < kLanes; ++r) total[r] += part[r];
    }
    std::copy_n(total, kLanes, sum + i);
  }
}

}  // namespace fa
