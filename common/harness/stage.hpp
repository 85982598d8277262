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
#include "common/attention/tolerance.hpp"

namespace fa {

/// Where a CUDA stage runs: automatic is the GPU where there is one, else the emulator.
enum class Device { automatic, gpu, simt };

/// One call of a stage. O and LSE are written in full, or only the rows listed in `queries` by a CPU
/// stage: a CUDA stage takes whole tiles of queries, so all of them.
struct Job {
  Problem problem;
  AnyTensor Q;                 // [B, Hq, Nq, d]
  AnyTensor K;                 // [B, Hkv, Nkv, d]
  AnyTensor V;                 // [B, Hkv, Nkv, d]
  AnyTensor O;                 // [B, Hq, Nq, d]
  float* LSE = nullptr;        // [B, Hq, Nq], contiguous
  std::vector<Index> queries;  // of every head; empty: all
  Tile tile;                   // 0: the stage's default
  int threads = 0;             // 0: all cores
  Device device = Device::automatic;
  std::function<void(double)> progress =
      nullptr;  // called with the share done, 0..1, from any thread
};

/// Thrown by a stage that this device can't run; what() is one line: the device, what it lacks, what
/// works instead.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a call knows of itself beside its output. A CPU stage knows nothing.
struct RunFacts {
  std::string device;   // "NVIDIA H200 (cc 9.0)", "emulator, 2 threads"; empty: the CPU
  double seconds = -1;  // by the device's own clock, transfers apart; below 0: the caller's counts
  double global_bytes = -1;  // moved from and to global memory, counted; below 0: not counted
  std::vector<std::pair<std::string, std::uint64_t>> counts;  // the emulator's, by name
  std::string faults;     // what the emulator found wrong; empty: nothing
  bool emulated = false;  // by the emulator: its time says nothing of a GPU
  std::string note;       // what the user should know of how it ran, one line; empty: nothing
};

/// The note of a step whose kernel moves 16 bytes at a time, on tensors where that can't be done.
inline constexpr const char* kOtherKernel =
    "d is no multiple of 8, or rows lie far apart or don't begin at multiples of 16 bytes: step "
    "2's kernel ran";

struct Stage {
  int number = 0;
  std::string name;   // "stage1_naive", also the executable's
  std::string title;  // "naive"; of a step "mma pipeline, step 5a: 32 queries a warp"
  // Stage 5 has steps, each a Stage with the same number and name.
  std::string step;    // "5a"; empty: a stage without steps
  std::string adds;    // "32 queries a warp"
  std::string source;  // "stage5_mma_pipeline/step5a_rows32.cuh"
  std::vector<DType> dtypes;
  bool tiled = false;      // takes --br and --bc
  bool on_device = false;  // takes --device: a CUDA stage
  Leeway leeway;

  /// Which head dimensions it takes (others it refuses by name), and on which devices it runs (on
  /// others it throws CannotRun): what chooses among steps. Empty: all.
  std::function<bool(Index)> takes_d;
  std::function<bool(Device)> runs_on;

  /// The tile that a job gets: what it asks for, else the stage's default. {0, 0} if not tiled.
  std::function<Tile(const Problem&, Tile)> tile_for;

  /// Computes O and LSE. Throws Refused, CannotRun, or std::bad_alloc when memory runs out.
  std::function<RunFacts(const Job&)> run;

  /// The prediction for a whole job: extra memory with all threads at work, bytes asked for.
  std::function<Cost(const Job&)> cost;
};

inline bool suits(const Stage& stage, Index d, Device device) {
  return (!stage.takes_d || stage.takes_d(d)) && (!stage.runs_on || stage.runs_on(device));
}

/// What reports call it: "stage 4", "step 5a".
inline std::string label_of(const Stage& stage) {
  return stage.step.empty() ? "stage " + std::to_string(stage.number) : "step " + stage.step;
}

}  // namespace fa
