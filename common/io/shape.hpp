// Shapes as files state them: any number of axes of any size, until checked.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/attention/tensor.hpp"

namespace fa {

using Shape = std::vector<Index>;

/// "[1, 9, 1021, 64]".
std::string describe(const Shape& shape);

/// The number of elements. Axes must not be negative; throws Refused ("WHERE: problem") when an
/// axis or the product of the axes passes 2^48, so that nothing computed from a shape that came
/// through here leaves 64 bits. An axis of size 0 counts as 1 there: strides multiply the others.
Index elements_of(const std::string& where, const Shape& shape);

/// The axes [B, H, N, d] of a tensor of 2 to 4 axes: [N, d] is one head, [H, N, d] one batch item.
/// Throws Refused ("WHERE: problem") for any other number of axes and for what elements_of refuses.
std::array<Index, 4> four_axes(const std::string& where, const Shape& shape);

/// An empty tensor to read into.
Storage storage_for(DType dtype, const std::array<Index, 4>& axes);

}  // namespace fa
