// Launching a kernel in the emulator, and what comes of it.
//
//     simt::Session session(options);          // launches of this thread belong to it
//     stage4::simt::attention(Q, K, V, …);     // the stage's own launcher
//     session.report().ok(), .text(), .total
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/simt/counters.hpp"
#include "common/simt/site.hpp"
#include "common/simt/types.hpp"

namespace fa::simt {

/// When the data of a cp.async or of a copy by TMA arrives, and when a store by TMA reads its page.
/// Hardware may do either; a kernel must be right under both.
enum class Copies {
  late,  // at the wait for it, and by TMA when nobody can run without it: finds a wait that is missing or too short
  early,  // at once, and the last warp runs first: finds a buffer that is overwritten too early
};

struct Options {
  Copies copies = Copies::late;
  int workers = 0;     // threads of the CPU that run blocks; 0: one a core
  bool checks = true;  // races, uninitialised reads. Bounds and alignment are always checked
  bool counters = true;
  bool per_block = false;                     // keep each block's counters too
  std::vector<std::int64_t> blocks;           // numbers of the blocks to run, x fastest; empty: all
  std::size_t stack_bytes = 64 * 1024;        // of each thread
  std::size_t max_shared_bytes = 227 * 1024;  // of a block; cc 9.0's, others have less
  std::function<void(double)> progress = {};  // called with the share done, from any thread
};

enum class Fault {
  barrier,         // not reached by all threads, or not by all at the same place
  divergence,      // a warp's operation that not all lanes of its mask arrive at
  global_bounds,   // outside every element of the buffer
  shared_bounds,   // outside the tile, or the tile outside the block's shared memory
  misaligned,      // a vector that doesn't begin at a multiple of its size
  uninitialised,   // shared memory read before anything wrote it
  race,            // two threads, one of them writing, and no barrier between
  copy_in_flight,  // data of an asynchronous copy touched before the wait for it
  shuffle,         // a value asked from a lane that doesn't take part
  copy_size,   // an asynchronous copy of fewer than 0 or more than 16 bytes, or of half an element
  not_waited,  // data of a landed copy touched by a thread that hasn't waited at its mbarrier
  not_fenced,  // a copy by TMA after ordinary accesses, with no fence_proxy_async between
  copy_left,   // the block ends, and nobody has waited for a copy
  mbarrier_init,      // used before its initialisation, or initialised twice
  mbarrier_arrivals,  // more than it expects in a phase
  mbarrier_bytes,     // more than it expects in a phase
  mbarrier_wait,      // for what can't come
};
const char* name_of(Fault fault);

/// One mistake, where it was first made, and how often the same lines made it again.
struct Violation {
  Fault fault = Fault::race;
  std::string kernel;
  SiteId site = 0;
  std::int64_t block = 0;  // number, x fastest
  int thread = 0;          // number in the block, x fastest
  std::string address;     // "sK[3][17]", "K[0, 2, 1021, 0]"
  std::string detail;      // what is wrong, in words
  SiteId other_site = 0;   // race: the other access
  int other_thread = -1;
  std::uint64_t count = 1;

  std::string text() const;  // three lines
};

/// What one or more launches did.
struct Report {
  std::vector<Violation> violations;  // different ones, by their block
  std::uint64_t violation_count = 0;  // with repetitions
  bool stopped_early = false;         // so many violations that the remaining blocks were left out
  Counters total;                     // over the blocks that ran
  std::vector<Counters> per_block;    // if asked for, in the order of Options::blocks
  std::int64_t launches = 0;
  std::int64_t blocks_run = 0;
  std::int64_t blocks_in_grid = 0;

  bool ok() const { return violation_count == 0; }

  /// The first ten different violations, and how many more there were. Empty if ok().
  std::string text() const;
};

/// A launch outside any session found violations. what() is the report.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Options for the launches that this thread makes while the session lives, and their report.
/// Sessions nest; the innermost counts.
class Session {
 public:
  explicit Session(Options session_options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Options& options() const { return options_; }
  const Report& report() const { return report_; }
  Report& report() { return report_; }

  static Session* current();

 private:
  Options options_;
  Report report_;
  Session* outer_;
};

/// A kernel and its arguments, made into something that a worker can call once a thread.
struct KernelCall {
  std::string name;
  const void* arguments = nullptr;
  void (*run_thread)(const void* arguments) = nullptr;
};

/// Runs a grid in the emulator. Throws KernelFault if there are violations and no session, and
/// std::runtime_error for a grid, block or amount of shared memory that no GPU launches.
void launch_grid(const KernelCall& kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

}  // namespace fa::simt
