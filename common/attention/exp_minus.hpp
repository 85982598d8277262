// exp(s − m): for one score, where softmax meets −inf − (−inf), and as arithmetic for many at once.
#pragma once

#include <cmath>

#include "common/attention/types.hpp"

namespace fa {

/// exp(a − b), and 0 where a is −inf, whatever b is.
///
/// a = −inf means "nothing": a hidden score, or the maximum before the first key. Its weight is 0
/// also when b is −inf, where the subtraction alone gives NaN. A NaN in a comes out as NaN.
inline float exp_minus(float a, float b) { return a == -INFINITY ? 0.0f : std::exp(a - b); }

namespace detail {

/// a · b + c with one rounding where the processor has the instruction, else with two.
inline float multiply_add(float a, float b, float c) {
#ifdef FP_FAST_FMAF
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// exp(x) for x ≤ 0, to 2 units in the last place, in arithmetic that a loop can do 16 at a time.
///
/// exp(x) = 2^n · exp(r) with n = round(x / ln 2), |r| ≤ ln(2) / 2. For exp(r) the polynomial of
/// degree 5 that begins with 1 + r and is off by 0.9 eps at most; 2^n is made by writing n + 127
/// into the exponent's bits. Below exp(−87) the result is exactly 0: a denormal number would cost
/// every product that meets it a hundred cycles.
inline float exp_of_negative(float x) {
  constexpr float magic = 12583039;  // 1.5 · 2^23 + 127: adding it rounds x / ln 2 to an integer …
  const float shifted =
      multiply_add(x, 1.44269504f, magic);  // … and leaves n + 127 in the low bits
  const float n = shifted - magic;
  // ln 2 in two parts: n times the first one is exact.
  const float r = multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));
  float p = 8.312501294e-3f;
  p = multiply_add(p, r, 4.189033171e-2f);
  p = multiply_add(p, r, 1.666711539e-1f);
  p = multiply_add(p, r, 4.999923031e-1f);
  p = multiply_add(p, r, 1.0f);
  p = multiply_add(p, r, 1.0f);
  // A choice between numbers could hide a branch, and loops with branches aren't vectorised without
  // AVX-512. A choice between masks is none.
  const std::uint32_t keep = x < -87.0f ? 0u : ~0u;
  return float_of(bits_of(p * float_of(bits_of(shifted) << 23)) & keep);
}

}  // namespace detail

}  // namespace fa
