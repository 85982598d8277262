// Stage 5's worked example: which lane of a warp has which element, and in which banks rows lie.
#pragma once

#include "common/course/example.hpp"

namespace fa::course {

/// Drawings of the fragments of mma.m16n8k16 as ldmatrix hands them out and as the product leaves
/// them, that the accumulator of one product is the A operand of the next, and a tile in shared memory
/// in three layouts with the cycles that fetching it takes. The emulator's words give all of it; the
/// text fails where the kernels' own formula says something else.
WorkedExample fragment_example();

}  // namespace fa::course
