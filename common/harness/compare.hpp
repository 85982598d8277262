// Is an output right? Element by element, against the oracle and against the stage before.
#pragma once

#include <string>
#include <vector>

#include "common/attention/tolerance.hpp"
#include "common/harness/output.hpp"

namespace fa {

/// One output element (or LSE entry, x = −1) that is worth naming.
struct Element {
  Index b = 0, h = 0, i = 0, x = -1;
  double got = 0;
  double expected = 0;
  double tolerance = 0;
};

/// The outcome of comparing many elements.
struct Comparison {
  Index compared = 0;
  Index wrong = 0;            // beyond tolerance, or NaN or infinite where that isn't right
  Index wrong_nonfinite = 0;  // of those, the NaN and infinite ones
  Index excused = 0;          // NaN or infinite, which is allowed there (may_be_nonfinite)
  double max_error = 0;       // over finite elements
  double max_tolerance = 0;   // at the element with the worst error / tolerance
  double worst_ratio = 0;     // error / tolerance there; above 1 is wrong
  Element first_wrong;        // in row-major order
  Element worst;

  bool ok() const { return wrong == 0; }
  void add(const Element& element, bool may_be_nonfinite = false);
};

/// FlashAttention's rule for 16-bit outputs of at least 1,024 elements: the largest error is at
/// most twice that of the definition with P and O rounded to the type, plus 1e-5.
struct TensorRule {
  bool applies = false;
  double max_error = 0;
  double allowed = 0;

  bool ok() const { return !applies || max_error <= allowed; }
};

struct OracleCheck {
  Comparison O;
  Comparison LSE;
  TensorRule rule;
  Index unwritten = 0;  // elements that still hold the poison, over the whole output
  bool guards_intact = true;

  bool ok() const { return O.ok() && LSE.ok() && rule.ok() && unwritten == 0 && guards_intact; }
  /// One line: what is wrong, how much of it, where, got and expected. Empty when all is right.
  std::string failure() const;
};

/// Q, K and V of a problem.
struct Tensors {
  AnyTensor Q;  // [B, Hq, Nq, d]
  AnyTensor K;  // [B, Hkv, Nkv, d]
  AnyTensor V;  // [B, Hkv, Nkv, d]
};

/// Oracle rows of the chosen queries in every head: rows[(b · Hq + h) · queries + q].
struct Expected {
  std::vector<Index> queries;
  std::vector<OracleRow> rows;
};

/// Evaluates the oracle for `queries` (empty: all) of every head.
Expected expect(const Problem& problem, const Tensors& inputs, std::vector<Index> queries = {});

/// Compares an output with the oracle on the rows of `expected`. Rows that were not computed by
/// the oracle are only looked through for elements that nothing wrote.
OracleCheck check_against_oracle(const Problem& problem,
                                 const Expected& expected,
                                 const Output& output,
                                 Leeway leeway = {});

/// Compares an output with that of the stage before on the rows of `expected`. Allowed is the sum
/// of both stages' tolerances against the oracle.
Comparison check_against_previous(const Problem& problem,
                                  const Expected& expected,
                                  const Output& output,
                                  const Output& previous,
                                  Leeway leeway = {},
                                  Leeway previous_leeway = {});

/// "O[b=0 h=3 i=17 x=5]"
std::string name_of(const Element& element);

}  // namespace fa
