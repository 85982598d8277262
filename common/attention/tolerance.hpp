// How far from the oracle a right answer may lie. Derived in notes/numerics.md; in short:
//
//   float32   max|V| · (4 eps + min(max(√d u, min(d u, 2 dot_loss)) · |s|max, 2 unsure))
//                                                   rounding of q·k, of exp, of the division
//           + A · min(n u, (√n + 4 rises) u + 4 loss)       summing n products and n weights
//   16 bit    the above + u · |O|                   rounding O to the type
//             + 2u · A                              only where P is kept in 16 bits too
//
// eps = 2^-23, u = 2^-24 for float32 and the type's own unit roundoff in the 16-bit terms;
// |s|max = |scale|·‖q‖·max‖k‖, A = Σ P|V|, n = visible keys; unsure, rises, dot_loss, loss: OracleRow's.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/attention/oracle.hpp"

namespace fa {

/// What a stage does that changes what is right.
struct Leeway {
  bool P_in_16_bits = false;  // stages 1-4 keep P in float32
  bool whole_tiles = false;   // multiplies P = 0 with V of hidden keys: stages 3 and up
};

namespace detail {
constexpr double kEps = 0x1p-23;
constexpr double kFloatMax = 3.4e38;

/// Roundings of a float32 sum over the row's keys, relative to what is summed. At most n u; what
/// random roundings give, or four times what the plain sum of the same numbers loses, as a rule.
inline double sum_error(const OracleRow& row, double loss) {
  const double n = static_cast<double>(row.visible), rises = static_cast<double>(row.rises);
  return std::min(n * 0x1p-24, (std::sqrt(n) + 4 * rises) * 0x1p-24 + 4 * loss);
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
inline double tolerance_O(const OracleRow& row, Index x, Index d, DType dtype, Leeway leeway = {}) {
  const std::size_t at = static_cast<std::size_t>(x);
  const double n = static_cast<double>(row.visible), A = row.A[at];
  const double weights = 4 * detail::kEps + std::min(score_error(row, d), 2 * row.unsure);
  double allowed =
      weights * row.max_v + detail::sum_error(row, row.O_loss) * A + detail::underflow(dtype);
  if (dtype != DType::float32) {
    const double u = roundoff_of(dtype);
    allowed += u * std::abs(row.O[at]);
    // Weights below the type's normal range lose up to half its smallest number each.
    if (leeway.P_in_16_bits && row.visible > 0)
      allowed += 2 * u * A + n * detail::underflow(dtype) / row.l * row.max_v;
  }
  return allowed;
}

/// Largest allowed |LSE − oracle|: the error of the scores, of the sum l (relative, so absolute
/// after the logarithm), and the rounding of LSE itself.
inline double tolerance_LSE(const OracleRow& row, Index d, DType dtype, Leeway leeway = {}) {
  double allowed = 4 * detail::kEps + score_error(row, d) + detail::sum_error(row, row.LSE_loss) +
                   detail::kEps * std::abs(row.LSE);
  if (leeway.P_in_16_bits) allowed += roundoff_of(dtype);
  return allowed;
}

/// May a score leave float32's range, so that a stage has ±inf or NaN for it?
inline bool scores_beyond_range(const OracleRow& row) {
  return row.dot_size > detail::kFloatMax || row.score_size > detail::kFloatMax;
}

/// May O be NaN or infinite though the definition is finite? Where scores, or the unnormalised sum
/// Σ exp(s − m)·|V|, can leave float32's range; and where 0 · NaN is NaN.
inline bool may_be_nonfinite(const OracleRow& row, Index x, Leeway leeway = {}) {
  const std::size_t at = static_cast<std::size_t>(x);
  return scores_beyond_range(row) || row.A[at] * row.l > detail::kFloatMax ||
         (leeway.whole_tiles && !row.hidden_nonfinite.empty() && row.hidden_nonfinite[at]);
}

}  // namespace fa
