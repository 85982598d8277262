// The right answer, in float64, straight from the definition. It shares no mask, softmax or head
// map with any stage: what it has in common with them is the description of the problem.
#pragma once

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
  double score_size = 0;  // |scale| · ‖q‖ · max ‖k‖ over them: no finite score is larger
};

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

}  // namespace fa
