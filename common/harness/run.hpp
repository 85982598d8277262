// Running a stage and measuring it.
#pragma once

#include <string>
#include <vector>

#include "common/harness/output.hpp"
#include "common/harness/stage.hpp"

namespace fa {

/// Times of calls of a stage, without allocating and poisoning its output: by the wall, or by the
/// device's clock without transfers.
struct Timing {
  std::vector<double> seconds;  // of the runs that count, in order
  bool warmed_up = false;       // an untimed run came before
  Index extra_bytes = 0;        // scratch memory at the worst moment of the last run, counted
  RunFacts facts;               // of the last run

  double median() const;
};

/// Runs the job, writing to `output`, which is poisoned before every run. One run to warm up, then
/// `repeats` timed ones; 0: as many as fit in `budget` seconds, at least three. Where the warm-up
/// alone takes half the budget, it is the measurement. `what` names it in the progress line.
Timing run_timed(const Stage& stage,
                 Job job,
                 Output& output,
                 const std::string& what,
                 int repeats,
                 double budget);

/// Runs the same job with several stages in turn, so that a device that gets warm or slow gets so for
/// all: the times of `repeats` rounds; 0: as many as fit in `budget` seconds, at least three. Each
/// stage has run before.
std::vector<Timing> run_in_turn(
    const std::vector<Stage>& stages, Job job, Output& output, int repeats, double budget);

/// The stage before on the same input.
struct PreviousRun {
  Timing timing;
  bool all = false;  // else only the sample's queries, and the time means nothing
};

/// Runs all queries where that takes no more than a few seconds, judging by the rate at which the
/// sample went, and where `job.threads` isn't 0; else those of the sample.
/// `repeats` as in run_timed, but no more than three.
PreviousRun run_previous(const Stage& stage,
                         const Job& job,
                         const std::vector<Index>& sample,
                         Output& output,
                         int repeats);

}  // namespace fa
