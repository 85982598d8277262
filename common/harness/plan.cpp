#include "common/harness/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <set>

#include "common/harness/cpu_stage.hpp"
#include "common/harness/memory.hpp"
#include "common/harness/units.hpp"

namespace fa {

namespace {

/// (query, key) pairs times d: what the oracle does in two to four seconds on two cores, and what
/// it and the stage before do when they compute a sample.
constexpr double kAllWork = 3e9;
constexpr double kSampleWork = 1e9;
constexpr Index kMostSampled = 128;
constexpr Index kRandom = 64;
constexpr Index kMostEdges = 8;
constexpr Index kUsualTile = 64;  // for stages that have none

/// The rest of the memory that is free is left to others, and to what no estimate knows.
constexpr double kShare = 0.9;
/// Where nothing is known about memory, an address space of 47 bits is the limit.
constexpr double kAddressSpace = 0x1p47;

double as_double(Index n) { return static_cast<double>(n); }
double heads_of(const Problem& p) { return as_double(p.B) * as_double(p.Hq); }

double bytes_of_output(const Problem& p) {
  return heads_of(p) * as_double(p.Nq) * (as_double(p.d * bytes_of(p.dtype)) + 4);
}

/// An OracleRow with its three vectors; a task of the stage is smaller and there is one a head at
/// least.
double bytes_of_oracle(const Problem& p, Index queries) {
  const double rows = heads_of(p) * as_double(std::max<Index>(queries, 1));
  const double keys_and_values = 2 * 8 * as_double(p.Nkv) * as_double(p.d);
  return rows * (24 * as_double(p.d) + 200) + keys_and_values;
}

Job job_for(const Problem& p, const Options& options, int threads) {
  Job job;
  job.problem = p;
  job.tile = options.tile;
  job.threads = threads;
  return job;
}

/// The largest number of threads whose scratch fits into `bytes`; 0 when not even one's does.
int threads_that_fit(const Stage& stage, Job job, double bytes) {
  for (job.threads = thread_count(job); job.threads > 0; --job.threads)
    if (stage.cost(job).scratch_bytes <= bytes) return job.threads;
  return 0;
}

std::string sizes(const Problem& p) {
  return p.Nq == p.Nkv ? fmt::format("N = {}", p.Nq)
                       : fmt::format("Nq = {}, Nkv = {}", p.Nq, p.Nkv);
}

/// Stage 1's extra memory is the reason for stage 2.
std::string advice(const Stage& stage) {
  return stage.number == 1 ? "Try stage2_online_softmax_cpu, which needs neither"
                           : "Try fewer --threads, smaller sizes or smaller tiles";
}

std::string extra_memory(const Stage& stage) {
  return stage.number == 1 ? "for S and P" : "of extra memory";
}

}  // namespace

double bytes_of_inputs(const Problem& p) {
  const double row = as_double(p.d * bytes_of(p.dtype)) * as_double(p.B);
  return row * (as_double(p.Hq) * as_double(p.Nq) + 2 * as_double(p.Hkv) * as_double(p.Nkv));
}

Sample sample_queries(const Problem& p, Index Br, Index most) {
  std::set<Index> chosen;
  const auto add = [&](Index i) {
    if (0 <= i && i < p.Nq && static_cast<Index>(chosen.size()) < most) chosen.insert(i);
  };
  add(0);
  add(p.Nq - 1);
  add(p.Nq - p.Nkv - 1);  // with more queries than keys, a causal mask's last empty row …
  add(p.Nq - p.Nkv);      // … and its first one that sees a key
  // Edges evenly over all, the first and the last among them.
  const Index edges = p.Nq == 0 ? 0 : (p.Nq - 1) / Br;
  const Index shown = std::min(edges, kMostEdges);
  for (Index e = 0; e < shown; ++e) {
    const Index edge = 1 + (shown == 1 ? 0 : e * (edges - 1) / (shown - 1));
    add(edge * Br - 1);
    add(edge * Br);
  }
  Sample sample;
  std::mt19937_64 engine(1);
  const Index room = std::min({most, p.Nq, static_cast<Index>(chosen.size()) + kRandom});
  while (static_cast<Index>(chosen.size()) < room) {
    const std::size_t before = chosen.size();
    add(static_cast<Index>(engine() % static_cast<std::uint64_t>(p.Nq)));
    sample.random += static_cast<Index>(chosen.size() - before);
  }
  sample.queries.assign(chosen.begin(), chosen.end());
  return sample;
}

std::string describe(const Sample& sample, Index Nq) {
  const Index chosen = static_cast<Index>(sample.queries.size());
  if (sample.all() || chosen == Nq)
    return fmt::format("all {} queries of each head", count_text(Nq));
  std::vector<std::string> kinds = {"first", "last"};
  if (chosen - sample.random > 2) kinds.push_back("tile edges");
  if (sample.random > 0) kinds.push_back(fmt::format("{} random", sample.random));
  return fmt::format("{} of {} queries in each head ({})",
                     count_text(chosen),
                     count_text(Nq),
                     fmt::join(kinds, ", "));
}

Plan make_plan(const Problem& p,
               const Options& options,
               const Stage& stage,
               const std::optional<Stage>& previous,
               double input_bytes) {
  const double available = kShare * available_memory().value_or(kAddressSpace);
  const double outputs = (previous ? 2 : 1) * bytes_of_output(p);
  // From here on nothing loops over more rows than fit into memory.
  const double least = input_bytes + outputs + bytes_of_oracle(p, 1);
  if (least > available)
    throw Refused(
        fmt::format("Q, K, V, O and their check need {} at B = {}, H = {}, {}, d = {}; {} "
                    "are free",
                    bytes_text(least),
                    p.B,
                    p.Hq,
                    sizes(p),
                    p.d,
                    bytes_text(available)));

  Plan plan;
  const Index Br = std::max<Index>(stage.tile_for(p, options.tile).Br, 0);
  const double work_a_row = heads_of(p) * as_double(std::max<Index>(p.Nkv, 1)) * as_double(p.d);
  const Index most =
      std::clamp<Index>(static_cast<Index>(kSampleWork / work_a_row), 4, kMostSampled);
  plan.previous = sample_queries(p, Br > 0 ? Br : kUsualTile, most);
  const double all_bytes = least + bytes_of_oracle(p, p.Nq);
  // The oracle asks of every pair whether it is visible, which costs as much as one product.
  const double all_pairs = heads_of(p) * as_double(p.Nq) * as_double(p.Nkv);
  if (p.visible_pairs() * as_double(p.d) + all_pairs > kAllWork || all_bytes > available / 2)
    plan.oracle = plan.previous;

  const double oracle_bytes =
      bytes_of_oracle(p, plan.oracle.all() ? p.Nq : static_cast<Index>(plan.oracle.queries.size()));
  const double left = available - input_bytes - outputs - oracle_bytes;
  const Job job = job_for(p, options, options.threads);
  plan.threads = threads_that_fit(stage, job, left);
  if (plan.threads == 0)
    throw Refused(fmt::format("needs {} {} at {}; {} are free. {}",
                              bytes_text(stage.cost(job_for(p, options, 1)).scratch_bytes),
                              extra_memory(stage),
                              sizes(p),
                              bytes_text(std::max(left, 0.0)),
                              advice(stage)));
  if (plan.threads < thread_count(job))
    plan.notes.push_back(fmt::format("{} threads would need {} {}, {} are free: running with {}",
                                     thread_count(job),
                                     bytes_text(stage.cost(job).scratch_bytes),
                                     extra_memory(stage),
                                     bytes_text(left),
                                     plan.threads));
  if (previous) {
    plan.previous_threads = threads_that_fit(*previous, job, left);
    if (plan.previous_threads == 0 && plan.previous.all()) plan.previous_threads = 1;  // no query
  }
  return plan;
}

}  // namespace fa
