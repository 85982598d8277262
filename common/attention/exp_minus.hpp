// The one place where softmax meets −inf − (−inf).
#pragma once

#include <cmath>

namespace fa {

/// exp(a − b), and 0 where a is −inf, whatever b is.
///
/// a = −inf means "nothing": a hidden score, or the maximum before the first key. Its weight is 0
/// also when b is −inf, where the subtraction alone gives NaN. A NaN in a comes out as NaN.
inline float exp_minus(float a, float b) { return a == -INFINITY ? 0.0f : std::exp(a - b); }

}  // namespace fa
