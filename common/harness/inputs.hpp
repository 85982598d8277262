// Q, K and V made from a seed. The same seed gives the same numbers on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/compare.hpp"

namespace fa {

/// A problem and the tensors that go with it.
struct Inputs {
  Problem problem;
  Storage Q;  // [B, Hq, Nq, d]
  Storage K;  // [B, Hkv, Nkv, d]
  Storage V;  // [B, Hkv, Nkv, d]

  Tensors view() const { return {Q.view(), K.view(), V.view()}; }
};

/// One way to fill Q, K and V, and what it is good for.
struct Pattern {
  std::string name;
  std::string description;
};

/// normal, uniform, stairs-up, stairs-down, all-low, long-tail, mean, constant.
const std::vector<Pattern>& patterns();

/// Fills Q, K and V of the problem's shapes and type. Throws Refused for an unknown pattern.
Inputs make_inputs(const Problem& problem, const std::string& pattern, std::uint64_t seed);

}  // namespace fa
