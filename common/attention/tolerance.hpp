// How far from the oracle a right answer may lie. Derived in notes/numerics.md; in short:
//
//   float32   4 eps · (1 + √(d/64) · |s|max) · max|V|   rounding of q·k, of exp, of the division
//           + n · u · A                                  summing n products and n weights in order
//   16 bit    the above + u · |O|                        rounding O to the type
//             + 2u · A                                   only where P is kept in 16 bits too
//
// eps = 2^-23, u = 2^-24 for float32 and the type's own unit roundoff in the 16-bit terms;
// |s|max = |scale|·‖q‖·max‖k‖, A = Σ P|V|, n = visible keys, all from the oracle, row by row.
#pragma once

#include <cmath>

#include "common/attention/oracle.hpp"

namespace fa {

/// How a stage rounds, as far as tolerances care.
struct Rounding {
  bool P_in_16_bits = false;  // stages 1-4 keep P in float32
};

namespace detail {
constexpr double kEps = 0x1p-23;

/// Error of one row's scaled scores and of exp, relative to the weights.
inline double weight_error(const OracleRow& row, Index d) {
  return 4 * kEps * (1 + std::sqrt(static_cast<double>(d) / 64) * row.score_size);
}

/// The smallest number above 0 in the type, halved: what rounding near 0 loses at most.
inline double underflow(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 0x1p-25;
    case DType::bfloat16:
      return 0x1p-134;
    case DType::float32:
      break;
  }
  return 0x1p-150;
}
}  // namespace detail

/// Largest allowed |O − oracle| for element x of a row.
inline double tolerance_O(
    const OracleRow& row, Index x, Index d, DType dtype, Rounding rounding = {}) {
  const std::size_t at = static_cast<std::size_t>(x);
  const double n = static_cast<double>(row.visible), A = row.A[at];
  double allowed =
      detail::weight_error(row, d) * row.max_v + n * 0x1p-24 * A + detail::underflow(dtype);
  if (dtype != DType::float32) {
    const double u = roundoff_of(dtype);
    allowed += u * std::abs(row.O[at]);
    // Weights below the type's normal range lose up to half its smallest number each.
    if (rounding.P_in_16_bits)
      allowed += 2 * u * A + n * detail::underflow(dtype) / row.l * row.max_v;
  }
  return allowed;
}

/// Largest allowed |LSE − oracle|: the error of the scores, of the sum l (relative, so absolute
/// after the logarithm), and the rounding of LSE itself.
inline double tolerance_LSE(const OracleRow& row, Index d, DType dtype, Rounding rounding = {}) {
  const double n = static_cast<double>(row.visible);
  double allowed = detail::weight_error(row, d) + n * 0x1p-24 + detail::kEps * std::abs(row.LSE);
  if (rounding.P_in_16_bits) allowed += roundoff_of(dtype);
  return allowed;
}

/// Can the unnormalised sum Σ exp(s − m)·|V| leave float32's range, so that ±inf is all a stage
/// that divides by l at the end can give?
inline bool beyond_range(const OracleRow& row, Index x) {
  return row.A[static_cast<std::size_t>(x)] * row.l > 3.4e38;
}

}  // namespace fa
