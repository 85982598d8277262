#include "common/harness/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/attention/scratch.hpp"
#include "common/harness/cpu_stage.hpp"
#include "common/harness/progress.hpp"

namespace fa {

namespace {

constexpr int kLeastRepeats = 3;
constexpr int kMostRepeats = 200;
constexpr double kPreviousBudget = 1;  // seconds for its repeats
constexpr double kPreviousMost = 4;    // seconds that one run of it may take
constexpr double kQuickFlop = 1e9;     // runs in a second at any stage's rate

double run_once(const Stage& stage, Job& job, Output& output, Progress& progress, RunFacts& facts) {
  output.poison();
  job.O = output.O();
  job.LSE = output.LSE();
  job.progress = progress.callback();
  ScratchMeter::reset();
  const auto start = std::chrono::steady_clock::now();
  facts = stage.run(job);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return facts.seconds >= 0 ? facts.seconds : wall.count();
}

/// How many threads have something to do when heads are the tasks.
double busy_threads(const Job& job, double tasks) {
  return std::max(1.0, std::min<double>(thread_count(job), tasks));
}

}  // namespace

double Timing::median() const {
  if (seconds.empty()) return 0;
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

Timing run_timed(const Stage& stage,
                 Job job,
                 Output& output,
                 const std::string& what,
                 int repeats,
                 double budget) {
  Timing timing;
  {
    Progress progress(what);
    timing.seconds.push_back(run_once(stage, job, output, progress, timing.facts));
  }
  const double first = timing.seconds.front();
  if (repeats == 0 && first < budget / 2)
    repeats = static_cast<int>(
        std::clamp<double>(budget / std::max(first, 1e-9), kLeastRepeats, kMostRepeats));
  if (repeats > 0) {
    timing.warmed_up = true;
    timing.seconds.clear();
  }
  for (int r = 1; r <= repeats; ++r) {
    Progress progress(fmt::format("{}, run {} of {}", what, r, repeats));
    timing.seconds.push_back(run_once(stage, job, output, progress, timing.facts));
  }
  timing.extra_bytes = ScratchMeter::peak_bytes();
  return timing;
}

std::vector<Timing> run_in_turn(
    const std::vector<Stage>& stages, Job job, Output& output, int repeats, double budget) {
  std::vector<Timing> timings(stages.size());
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int round = 1;
       repeats > 0 ? round <= repeats
                   : round <= kLeastRepeats || (spent() < budget && round <= kMostRepeats);
       ++round)
    for (std::size_t s = 0; s < stages.size(); ++s) {
      Timing& timing = timings[s];
      Progress progress(fmt::format("{}, round {}", label_of(stages[s]), round));
      timing.seconds.push_back(run_once(stages[s], job, output, progress, timing.facts));
      timing.warmed_up = true;
      timing.extra_bytes = ScratchMeter::peak_bytes();
    }
  return timings;
}

PreviousRun run_previous(const Stage& stage,
                         const Job& job,
                         const std::vector<Index>& sample,
                         Output& output,
                         int repeats) {
  const Problem& p = job.problem;
  const std::string what = label_of(stage) + ", for comparison";
  const double heads = static_cast<double>(p.B * p.Hq);
  // A CUDA stage takes all queries whatever is asked for.
  if (stage.on_device)
    return {run_timed(stage, job, output, what, std::min(repeats, kLeastRepeats), kPreviousBudget),
            true};
  bool all = job.threads > 0;
  if (all && !sample.empty() && p.flop() > kQuickFlop) {
    Job part = job;
    part.queries = sample;
    Progress progress(what);
    RunFacts facts;
    const double seconds = run_once(stage, part, output, progress, facts);
    const double rows = static_cast<double>(sample.size());
    // One row of one head on one thread, then all rows with heads as the tasks.
    const double row_seconds = seconds * busy_threads(part, heads * rows) / (heads * rows);
    const double estimate =
        row_seconds * static_cast<double>(p.Nq) * heads / busy_threads(job, heads);
    all = estimate <= kPreviousMost;
    if (!all) return {Timing{{seconds}, false, ScratchMeter::peak_bytes(), facts}, false};
  }
  Job whole = job;
  if (!all) whole.queries = sample;
  if (!all)
    return {run_timed(stage, whole, output, what, 0, 0), false};  // once: no time to compare
  return {run_timed(stage, whole, output, what, std::min(repeats, kLeastRepeats), kPreviousBudget),
          true};
}

}  // namespace fa
