// The standard probes: few inputs that together show every classic mistake.
//
//   random          the definition, the scale, the head map, the tails
//   random causal   the mask, its alignment where Nq and Nkv differ
//   stairs-up       the maximum moves from tile to tile: what was summed must be rescaled
//   stairs-down     the first tile decides, all later ones must vanish
//   all-low         exp without the row's own maximum is 0
//   long-tail       weights of e^-14 count, when there are many
//   random window   both bounds of a window, and rows that see no key
//   long window     many tiles of keys, in some of which only some warps see any; only in stage 5
//   some rows rise  rows whose maximum comes late beside others, under a causal mask; only in stage 5
//   neighbours      rows whose maximum moves a little beside others whose moves by far: the same bits
//                   as beside others like them; only in stage 5
//   negative scale  only for kernels that take the scale's sign apart (stage 5)
//   huge scores     near 1e12, where s − m of the largest score is 0 only if both were rounded alike
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support.hpp"

namespace fa {

struct Failure {
  std::string probe;
  std::string what;  // one line, and then what the emulator found
};

/// Runs all probes, or until enough(failures); returns those that failed. A CUDA stage in the emulator gets
/// smaller ones.
std::vector<Failure> run_probes(
    const Variant& variant,
    DType dtype = DType::float32,
    const std::function<bool(const std::vector<Failure>&)>& enough = {});

}  // namespace fa
