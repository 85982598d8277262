// Where a stage writes: poisoned before every run, with a guard on either side.
#pragma once

#include <vector>

#include "common/attention/problem.hpp"
#include "common/attention/tensor.hpp"

namespace fa {

/// O [B, Hq, Nq, d] in the problem's type and LSE [B, Hq, Nq]. Every element holds a NaN of a known
/// bit pattern until something writes it; so do the guard rows before and behind, which nothing may
/// ever write. Throws std::bad_alloc.
class Output {
 public:
  explicit Output(const Problem& problem);

  const AnyTensor& O() const { return O_; }
  float* LSE() { return lse_.data() + guard_; }
  const float* LSE() const { return lse_.data() + guard_; }

  /// Fills everything, guards too, with the poison.
  void poison();

  /// Are all guard elements still the poison?
  bool guards_intact() const;

  /// Elements of O and LSE that still are.
  Index unwritten() const;

 private:
  DType dtype_;
  Index guard_;  // elements on either side
  std::vector<unsigned char> o_;
  std::vector<float> lse_;
  AnyTensor O_;
};

}  // namespace fa
