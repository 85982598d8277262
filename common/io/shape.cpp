#include "common/io/shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/attention/problem.hpp"

// Both formats are little-endian on disk, and data goes to memory as it is.
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "common/io reads tensors straight into memory: it needs a little-endian machine."
#endif

namespace fa {

namespace {
constexpr Index kMaxElements = Index{1} << 48;  // as in validate()
constexpr std::size_t kMaxAxesShown = 8;
}  // namespace

std::string describe(const Shape& shape) {
  if (shape.size() > kMaxAxesShown) {
    const auto end = shape.begin() + static_cast<std::ptrdiff_t>(kMaxAxesShown);
    return fmt::format("[{}, ... {} axes]", fmt::join(shape.begin(), end, ", "), shape.size());
  }
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Index elements_of(const std::string& where, const Shape& shape) {
  Index nonzero = 1;
  bool empty = false;
  for (const Index size : shape) {
    const Index factor = std::max<Index>(size, 1);
    if (factor > kMaxElements / nonzero)
      throw Refused(fmt::format(
          "{}: shape {} is too large: at most 2^48 elements are allowed", where, describe(shape)));
    nonzero *= factor;
    empty = empty || size == 0;
  }
  return empty ? 0 : nonzero;
}

std::array<Index, 4> four_axes(const std::string& where, const Shape& shape) {
  if (shape.size() < 2 || shape.size() > 4)
    throw Refused(
        fmt::format("{}: found shape {}, expected 2 to 4 axes: [N, d], [H, N, d] or [B, H, N, d]",
                    where,
                    describe(shape)));
  elements_of(where, shape);
  std::array<Index, 4> axes = {1, 1, 1, 1};
  std::copy_backward(shape.begin(), shape.end(), axes.end());
  return axes;
}

Storage storage_for(DType dtype, const std::array<Index, 4>& axes) {
  return {dtype, axes[0], axes[1], axes[2], axes[3]};
}

}  // namespace fa
