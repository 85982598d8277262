// The contract: what every stage computes, for which shapes, and the words for what it refuses.
//
//   O = softmax(scale · Q Kᵀ + mask) V        Q [B, Hq, Nq, d]      O like Q
//   LSE = log Σ exp of each masked row        K, V [B, Hkv, Nkv, d] LSE [B, Hq, Nq], natural log
//
// Query head h reads KV head h / (Hq / Hkv): MHA when Hkv = Hq, GQA below, MQA when Hkv = 1.
// A query that sees no key has O = 0 and LSE = −inf.
#pragma once

#include <stdexcept>
#include <string>

#include "common/attention/mask.hpp"
#include "common/attention/view.hpp"

namespace fa {

/// Input that is refused. what() is one line: what, which value, what is allowed.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Problem {
  Index B = 1;
  Index Hq = 1;
  Index Hkv = 1;
  Index Nq = 0;
  Index Nkv = 0;
  Index d = 64;
  DType dtype = DType::float32;
  float scale = 0.125f;
  bool causal = false;
  Index window_left = -1;
  Index window_right = -1;

  Mask mask() const { return {Nkv, Nkv - Nq, causal, window_left, window_right}; }

  /// The KV head that query head h reads: each one serves Hq / Hkv neighbouring query heads.
  Index kv_head(Index h) const { return h / (Hq / Hkv); }

  /// (query, key) pairs that the mask lets through, over all heads and batch items.
  double visible_pairs() const;

  /// 4 · d · visible pairs: a multiply and an add for QKᵀ, and again for PV (the FlashAttention
  /// papers' count, with the mask counted exactly instead of halved).
  double flop() const { return 4.0 * static_cast<double>(d) * visible_pairs(); }
};

/// 1/√d, from the true head dimension (never a padded one).
float default_scale(Index d);

/// Throws Refused unless every stage that knows the dtype could run the problem.
void validate(const Problem& problem);

/// "B=1 Hq=9 Hkv=3 Nq=1021 Nkv=1021 d=64 float16 causal scale=0.125"
std::string describe(const Problem& problem);

}  // namespace fa
