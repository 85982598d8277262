// What the tests share: problems in one line, one run of one stage, one check against the oracle.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/harness/inputs.hpp"
#include "tests/all_stages.hpp"

namespace fa {

inline const std::vector<DType> kAllTypes = {DType::float32, DType::float16, DType::bfloat16};

/// One head, no mask, scale 1/√d.
Problem one_head(Index Nq, Index Nkv, Index d, DType dtype = DType::float32);

/// The same problem with another mask.
Problem with_mask(Problem problem, bool causal, Index left = -1, Index right = -1);

/// Does query i see key j? From the contract, apart from Mask and from the oracle.
bool sees(const Problem& problem, Index i, Index j);

/// Runs a job where the variant is to run. Throws where it ran elsewhere: no test of a GPU may pass
/// in the emulator.
RunFacts run_job(const Variant& variant, Job job);

/// Runs a stage into a poisoned output. Throws what the emulator found wrong.
Output run(const Variant& variant,
           const Problem& problem,
           const Tensors& inputs,
           int threads = 1,
           const std::vector<Index>& queries = {});

/// Runs a stage on all queries and holds the output against the oracle, the poison and the guards.
/// Returns what is wrong in one line, and then what the emulator found; nothing when all is right.
std::string check(const Variant& variant,
                  const Problem& problem,
                  const Tensors& inputs,
                  const Expected& expected);

/// Makes inputs and checks every variant on them. Returns a line for each that fails, which begins
/// with its name and the problem. A variant that doesn't take the problem's d must refuse it by name, and
/// is checked with another (by_d); one that doesn't take its type must refuse that.
std::string check_variants(const std::vector<Variant>& variants,
                           const Problem& problem,
                           const std::string& pattern = "normal",
                           std::uint64_t seed = 1);
inline std::string check_all_variants(const Problem& problem,
                                      const std::string& pattern = "normal",
                                      std::uint64_t seed = 1) {
  return check_variants(all_variants(), problem, pattern, seed);
}

/// The type that a variant is tried in where the type doesn't matter.
inline DType type_of(const Variant& variant) { return variant.stage.dtypes.front(); }

/// Are O and LSE of row i of head h equal bit for bit? For every row of every head: same_bits.
bool same_row(
    const Output& a, Index b_a, Index i_a, const Output& b, Index b_b, Index i_b, Index h);
bool same_bits(const Output& a, const Output& b);

/// Sets element (b, h, i, x), rounded to the tensor's type.
void set(const AnyTensor& X, Index b, Index h, Index i, Index x, float value);

/// Makes the last column of Q of_query(i) and that of K of_key(j), in all heads and batch items: their
/// product is added to what the other columns give as a score.
void set_last_column(const Tensors& inputs,
                     const std::function<float(Index)>& of_query,
                     const std::function<float(Index)>& of_key);

/// The same so that scores rise from the first key to the last by of_query(i) powers of 2.
void let_scores_rise(const Problem& problem,
                     const Tensors& inputs,
                     const std::function<float(Index)>& of_query);

/// The larger error; NaN if either is, which std::max(worst, NaN) is not.
inline double worse(double worst, double error) {
  return std::isnan(worst) || error <= worst ? worst : error;
}

/// A copy with its own storage.
Storage copy_of(const AnyTensor& X);

}  // namespace fa
