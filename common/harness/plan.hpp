// What a run will do before it does it: how many threads fit into memory, and which queries are
// checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/harness/options.hpp"

namespace fa {

/// Some queries of every head.
struct Sample {
  std::vector<Index> queries;  // ascending; empty: all
  Index random = 0;            // how many of them were drawn at random

  bool all() const { return queries.empty(); }
};

/// First, last, where the mask begins, both sides of tile edges (Br apart), random ones: at most
/// `most` of Nq, the most telling first.
Sample sample_queries(const Problem& problem, Index Br, Index most);

/// "all 1,021 queries of each head", "96 of 65,536 queries in each head (first, last, tile edges,
/// 64 random)".
std::string describe(const Sample& sample, Index Nq);

struct Plan {
  int threads = 1;           // that the stage gets
  Sample oracle;             // what the oracle computes
  Sample previous;           // what the stage before computes when all is too much
  int previous_threads = 0;  // for all queries; 0: not even one thread's memory fits
  std::vector<std::string> notes;
};

/// `input_bytes`: what Q, K and V still need, 0 when they are in memory already. Throws Refused,
/// with the estimate, when the run doesn't fit into the memory that is available.
Plan make_plan(const Problem& problem,
               const Options& options,
               const Stage& stage,
               const std::optional<Stage>& previous,
               double input_bytes);

/// Bytes of Q, K and V.
double bytes_of_inputs(const Problem& problem);

}  // namespace fa
