// Times one stage by itself, in this process, and counts the memory it takes.
#pragma once

#include "common/course/stages.hpp"
#include "common/harness/inputs.hpp"

namespace fa::course {

struct Measurement {
  double seconds = 0;  // median of the repeats
  int repeats = 0;
  double flop = 0;                   // 4 · d · visible pairs
  double extra_bytes = 0;            // the most that was allocated at once
  double extra_bytes_predicted = 0;  // the stage's own formula
  double traffic_bytes = 0;          // the stage's own formula

  double gflops() const { return flop / seconds / 1e9; }
};

/// Runs the stage as often as fits in `budget_seconds`, as the programs do (run_timed). `threads`
/// as in Job: 0 for all cores.
Measurement measure(const fa::Stage& stage,
                    const Inputs& inputs,
                    int threads,
                    double budget_seconds);

/// One head of N random queries and keys.
Inputs one_head(Index N, Index d, DType dtype = DType::float32);

/// "Intel(R) Xeon(R) Platinum …", and the cores this process may use.
std::string processor_name();
int processor_cores();

/// Today as 2025-01-31.
std::string today();

}  // namespace fa::course
