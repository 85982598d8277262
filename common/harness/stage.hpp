// A stage, seen from outside: the contract as data. The five executables, the tests and the
// benchmarks know stages only through this.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/attention/cost.hpp"
#include "common/attention/problem.hpp"
#include "common/attention/tensor.hpp"

namespace fa {

/// One call of a stage. O and LSE are written in full, or only the rows listed in `queries`.
struct Job {
  Problem problem;
  AnyTensor Q;  // [B, Hq, Nq, d]
  AnyTensor K;  // [B, Hkv, Nkv, d]
  AnyTensor V;  // [B, Hkv, Nkv, d]
  AnyTensor O;  // [B, Hq, Nq, d]
  float* LSE = nullptr;        // [B, Hq, Nq], contiguous
  std::vector<Index> queries;  // of every head; empty: all
  Tile tile;                   // 0: the stage's default
  int threads = 0;             // 0: all cores
  std::function<void(double)> progress = nullptr;  // called with the share done, 0..1, from any thread
};

/// Thrown by a stage that this device can't run; what() is one line: the device, what it lacks, what
/// works instead.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Stage {
  int number = 0;
  std::string name;   // "stage1_naive", also the executable's
  std::string title;  // "naive"
  std::vector<DType> dtypes;
  bool tiled = false;  // takes --br and --bc

  /// The tile that a job gets: what it asks for, else the stage's default. {0, 0} if not tiled.
  std::function<Tile(const Problem&, Tile)> tile_for;

  /// Computes O and LSE. Throws Refused, CannotRun, or std::bad_alloc when memory runs out.
  std::function<void(const Job&)> run;

  /// The prediction for a whole job: extra memory with all threads at work, bytes asked for.
  std::function<Cost(const Job&)> cost;
};

}  // namespace fa
