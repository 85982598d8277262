// The right answer, in float64, straight from the definition. It shares no mask, softmax or head
// map with any stage: what it has in common with them is the description of the problem.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/attention/problem.hpp"
#include "common/attention/tensor.hpp"

namespace fa {

/// What is right for one query, and the magnitudes from which tolerances are made.
struct OracleRow {
  std::vector<double> O;          // [d]
  std::vector<double> A;          // [d]  Σ P·|V|, the size of the terms that O is the sum of
  std::vector<double> O_rounded;  // [d]  the definition with P and O rounded to the input's type
  double LSE = 0;
  Index visible = 0;      // keys that the query sees
  double l = 0;           // Σ exp(s − m) over them
  double max_v = 0;       // max |V| over them, infinite elements aside
  double dot_size = 0;    // ‖q‖ · max ‖k‖ over them: no finite q·k is larger
  double score_size = 0;  // |scale| · dot_size
  double unsure = 0;      // the weight that rounding the scores could move, at most 1
  Index rises = 0;        // keys, in order, whose score is larger than all before
  double dot_loss = 0;    // what float32 sums of q·k, in order, lose at most, relative to dot_size

  // What float32 sums of the weights and of P V, key by key, lose: |ΔO| / A and |ΔLSE|, the largest
  // of all rows that were evaluated together.
  double O_loss = 0, LSE_loss = 0;

  // [d] Is V[:, x] of a key that is hidden from this query, but not from all, NaN or infinite?
  // Empty: nowhere.
  std::vector<bool> hidden_nonfinite;
};

/// How far off float32 scores may be, |δs|, before the roundings that every weight has (numerics.md): by
/// what random roundings give, or by twice what the plain sum loses, where those err the same way.
inline double score_error(const OracleRow& row, Index d) {
  const double n = static_cast<double>(d);
  const double relative = std::max(std::sqrt(n) * 0x1p-24, std::min(n * 0x1p-24, 2 * row.dot_loss));
  return relative * row.score_size;
}

/// Rows `queries` of head h of batch item b. Q [B, Hq, Nq, d], K and V [B, Hkv, Nkv, d].
///
/// S = scale · Q Kᵀ, P = softmax(S) over the visible keys, O = P V, LSE = m + log l. A query that
/// sees no key: O = 0, LSE = −inf. Where the definition itself is not a number, neither is O.
std::vector<OracleRow> oracle(const Problem& problem,
                              const AnyTensor& Q,
                              const AnyTensor& K,
                              const AnyTensor& V,
                              Index b,
                              Index h,
                              const std::vector<Index>& queries);

/// Gives every row the largest O_loss and LSE_loss of all.
void share_losses(std::vector<OracleRow>& rows);

}  // namespace fa
