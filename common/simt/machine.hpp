// The machine that runs blocks: fibers for threads, a scheduler for warps, logs of accesses.
//
// A thread runs alone until it must wait. What it accesses meanwhile is appended to a log; when all
// lanes of its warp wait, their logs are read side by side. The k-th entry of every lane then is
// one warp instruction as long as all lanes went the same way; where they didn't, entries are
// matched by line and by how often the lane has been there. So counting and race checks cost a few
// nanoseconds an access, and the access itself only a bounds check and an append.
#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "common/attention/view.hpp"
#include "common/simt/fiber.hpp"
#include "common/simt/launch.hpp"
#include "common/simt/mbarrier.hpp"
#include "common/simt/race.hpp"

namespace fa::simt {

class Worker;

enum class Access : std::uint32_t { load, store, copy_begins, copy_lands, event };

/// An access to shared memory: site, what it is, log2 of its bytes, the byte it begins at. An event:
/// its number.
struct SharedEntry {
  std::uint64_t bits;
  static SharedEntry of(SiteId site, Access what, int log2_bytes, std::uint32_t at) {
    return {std::uint64_t{site} << 32 | static_cast<std::uint64_t>(what) << 28 |
            static_cast<std::uint64_t>(log2_bytes) << 24 | at};
  }
  std::uint64_t tag() const { return bits >> 24; }  // all but the address
  SiteId site() const { return static_cast<SiteId>(bits >> 32); }
  Access what() const { return static_cast<Access>(bits >> 28 & 15); }
  int bytes() const { return 1 << (bits >> 24 & 15); }
  std::uint64_t at() const { return bits & 0xffffff; }
};

/// An access to global memory. `at` counts from a multiple of 2^40 that is the buffer's own, so
/// that sectors are those of a buffer that begins at a sector's start (up to 16 bytes, as
/// allocated).
struct GlobalEntry {
  std::uint64_t where;
  std::uint64_t bits;
  static GlobalEntry of(SiteId site, Access what, int log2_bytes, std::uint64_t at) {
    return {at, SharedEntry::of(site, what, log2_bytes, 0).bits};
  }
  std::uint64_t tag() const { return bits; }
  SiteId site() const { return SharedEntry{bits}.site(); }
  Access what() const { return SharedEntry{bits}.what(); }
  int bytes() const { return SharedEntry{bits}.bytes(); }
  std::uint64_t at() const { return where; }
};

/// A lane's log: written to through `next`, made longer when it reaches `end`.
template <class Entry>
struct Log {
  std::vector<Entry> entries = std::vector<Entry>(2048);
  Entry* next = entries.data();

  Entry* end() { return entries.data() + entries.size(); }
  std::size_t size() const { return static_cast<std::size_t>(next - entries.data()); }
  void grow() {
    const std::size_t used = size();
    entries.resize(entries.size() * 2);
    next = entries.data() + used;
  }
};

/// What the running thread's memory accesses need, close at hand.
struct Hot {
  SharedEntry* shared_next = nullptr;
  SharedEntry* shared_end = nullptr;
  GlobalEntry* global_next = nullptr;
  GlobalEntry* global_end = nullptr;
  const char* file = nullptr;  // of the last access
  SiteId file_site = 0;
  bool logging = false;
  unsigned char* shared = nullptr;  // the block's shared memory
  std::uint64_t exponentials = 0;
  Worker* worker = nullptr;
  uint3 thread{}, block{};
  dim3 block_dim{}, grid_dim{};
};
inline thread_local Hot hot{};

// Out of line: the rare cases.
void enter_file(const char* file);
void grow_shared_log();
void grow_global_log();

inline SiteId site_of(const char* file, int line) {
  if (file != hot.file) enter_file(file);
  return hot.file_site | static_cast<SiteId>(line);
}
inline void log_shared(SiteId site, Access what, int log2_bytes, std::uint32_t at) {
  if (!hot.logging) return;
  if (hot.shared_next == hot.shared_end) grow_shared_log();
  *hot.shared_next++ = SharedEntry::of(site, what, log2_bytes, at);
}
inline void log_global(SiteId site, Access what, int log2_bytes, std::uint64_t at) {
  if (!hot.logging) return;
  if (hot.global_next == hot.global_end) grow_global_log();
  *hot.global_next++ = GlobalEntry::of(site, what, log2_bytes, at);
}

/// A range of global memory that kernels may touch: [B, H, N, d] elements, or just N of them.
struct Buffer {
  std::string name;
  unsigned char* base = nullptr;
  Index element_bytes = 1;
  Index elements = 0;  // from the first to the last, gaps included
  std::uint64_t virtual_base = 0;

  struct Axis {
    Index stride = 0, size = 1;
    int position = 0;  // of b, h, i in the name
  };
  std::array<Axis, 3> axes;  // longest stride first
  Index d = 0;               // 0: no shape, a plain array
  bool gaps = false;         // elements lie between rows that aren't the tensor's

  bool inside(Index at, Index count) const {
    return at >= 0 && count <= elements - at && (!gaps || inside_a_row(at, count));
  }
  bool inside_a_row(Index at, Index count) const;
  std::string name_of(Index at) const;
};

/// Makes buffers known. They live as long as the session, or without one until the launch is over.
const Buffer* add_buffer(const char* name, const void* data, Index elements, Index element_bytes);
const Buffer* add_buffer(const char* name,
                         const Tensor<const unsigned char>& shape,
                         Index element_bytes);

/// A named part of a block's shared memory.
struct SharedPart {
  const char* name = "";
  std::uint32_t begin = 0;  // byte
  Index elements = 0;
  Index element_bytes = 1;
  Index columns = 0;  // 0: an array of one axis

  std::string name_of(Index at) const;
};

/// An operation in which lanes of a warp, or all threads of the block, meet.
struct Operation {
  const char* name = "";
  /// Does it for the lanes of `mask`, whose arguments are arguments[lane]. nullptr: __syncthreads,
  /// and __syncthreads_or, whose argument is an int that gets the answer.
  void (*complete)(Worker& worker, int warp, std::uint32_t mask, void* const* arguments) = nullptr;
  std::uint32_t mask = 0;
  SiteId site = 0;
  void* arguments = nullptr;
  /// mbarrier_wait, for which each lane waits by itself: where, for which parity, and whether the
  /// phase is over. 0: another operation.
  std::uint32_t key = 0;
  std::uint32_t phase = 0;  // that is over

  static std::uint32_t mbarrier_key(std::uint32_t at, std::uint32_t phase) {
    return at << 3 | (phase & 1) << 1 | 1;
  }
  void note_over(std::uint32_t its_phase) { key |= 4, phase = its_phase; }
  bool is_over() const { return key & 4; }
  std::uint32_t mbarrier() const { return key >> 3; }  // byte of the block's shared memory
};

/// Waits until the operation has been completed. Called by the running thread.
void meet(const Operation& operation);

/// Reports the running thread's access outside its buffer or tile, or one that isn't aligned to
/// `alignment` bytes (0: it is). columns: of the row that a column lies outside of.
[[gnu::cold]] void violate_global(
    const Buffer& buffer, Index at, Access what, SiteId site, int alignment = 0);
[[gnu::cold]] void violate_shared(
    const SharedPart& part, Index at, Access what, SiteId site, int alignment = 0);
[[gnu::cold]] void violate_row(
    const SharedPart& part, Index row, Index column, SiteId site, Index elements = 1);
/// Reports the running thread's copy of `bytes`, which isn't a number of whole elements from 0 to 16.
[[gnu::cold]] void violate_copy_size(int bytes, int element_bytes, SiteId site);

/// One CPU thread's machinery. It runs one block at a time.
class Worker {
 public:
  Worker(const KernelCall& kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const Options&);

  void run_block(std::int64_t number);

  // For operations and memory.
  RaceDetector& race() { return race_; }
  Counters& counters() { return counters_; }
  const Options& options() const { return options_; }
  unsigned char* shared() { return shared_.data(); }
  std::size_t shared_bytes() const { return shared_bytes_; }
  const SharedPart* carve(std::size_t index, const SharedPart& part, SiteId site);
  std::string name_of_element(std::uint32_t byte) const;  // "sK[3][17]"
  std::string name_of_shared(std::uint32_t byte) const;   // and which byte that is
  void violate(Violation violation);
  /// The running thread's. False if the same lines have done it before: then it is only counted.
  bool is_new_violation(Fault fault, SiteId site, SiteId other_site = 0);
  void violate(Fault fault, SiteId site, std::string address, std::string detail);
  void report_race(const RaceDetector::Result& result, SiteId site, const char* doing);
  /// What the banks take for a warp's access to shared memory.
  Wavefronts wavefronts_of(const WarpAccess& access, SiteId site);

  void grow_shared_log();
  void grow_global_log();

  /// The running thread waits until the operation has been completed.
  void meet(const Operation& operation);

  /// cp.async of the running thread.
  void copy(std::uint32_t to, const void* from, int bytes, SiteId site);
  void commit();
  void wait(int groups_under_way, SiteId site);

  /// mbarriers and TMA: mbarrier.cpp.
  void init_mbarrier(std::uint32_t at, int arrivals, SiteId site);
  void arrive(std::uint32_t at, int bytes, SiteId site);
  void wait_at_mbarrier(std::uint32_t at, int parity, SiteId site);
  void pass_mbarrier(int warp, std::uint32_t lanes);
  int add_one(std::uint32_t at, SiteId site);
  void fence_proxy(SiteId site);
  void copy_tile(TileCopy copy, std::uint32_t done);
  void store_page(const PageStore& store);
  void wait_for_stores(SiteId site);

  int current_thread() const { return current_; }
  SiteId operation_site(int thread) const {
    return threads_[static_cast<std::size_t>(thread)].operation.site;
  }
  std::int64_t block_number() const { return block_number_; }

  // What the launch collects.
  std::vector<Violation> violations;  // different ones
  std::uint64_t violation_count = 0;
  Counters total;

 private:
  enum class State : std::uint8_t { ready, waiting, done };

  struct PendingCopy {
    std::uint32_t to;
    const void* from;
    int bytes;  // the rest of the 16 is zero
    SiteId site;
    std::uint32_t group;
  };

  struct Thread {
    Fiber fiber;
    State state = State::done;
    Operation operation;
    uint3 index;
    std::vector<PendingCopy> copies;
    std::uint32_t group = 0;        // commit groups so far
    std::vector<PageStore> stores;  // since the last wait for them
  };

  /// How the addresses of a warp instruction lie to each other, and what follows from that. Loops
  /// repeat a pattern with other addresses, so most are found here again.
  struct Pattern {
    // The question: who, how much, how placed.
    std::uint64_t key = ~0ull;
    std::uint32_t lanes = 0;
    std::array<std::uint32_t, 32> offset{};  // of the i-th lane from the first one
    // The answers.
    Wavefronts wavefronts;
    int sectors = 0;
    int places = 0;  // different addresses, and which lanes access each
    std::array<std::uint32_t, 32> place_offset;
    std::array<std::uint32_t, 32> place_lanes;
  };

  static void run_thread(void* self);
  void resume(int thread);
  void run_warps();
  bool run_warp(int warp);
  bool complete_operations(int warp);
  bool release_barrier();
  void report_stuck();
  std::string whereabouts() const;
  void abandon();

  void flush(int warp);
  template <class Entry>
  void flush(int warp, std::array<Log<Entry>, 32>& logs);
  template <class Entry>
  void flush_diverged(int warp, std::array<Log<Entry>, 32>& logs, std::size_t from);
  template <class Entry>
  void check_in_rounds(int warp, std::array<Log<Entry>, 32>& logs, std::size_t from);
  void account(const SharedEntry& kind, const WarpAccess& access, const Pattern& pattern);
  void account(const GlobalEntry& kind, const WarpAccess& access, const Pattern& pattern);
  void check(const SharedEntry& entry, int thread);
  void check(const GlobalEntry&, int) {}
  template <class Entry>
  Pattern& pattern(const WarpAccess& access, SiteId site);
  void land(const PendingCopy& copy);
  void settle_unwritten();

  MbarrierState* mbarrier_at(std::uint32_t at);
  MbarrierState* made_mbarrier(std::uint32_t at, SiteId site);
  bool knows_of_init(const MbarrierState& m, int thread, SiteId site);
  void check_bytes(MbarrierState& m, SiteId site);
  void check_phase(MbarrierState& m, const Event& event, Fault fault);
  bool is_phase_over(const Operation& wait);
  void begin_phase(MbarrierState& m);
  void end_phase(MbarrierState& m);
  bool land_tiles();
  void check_copies_landed();
  void check_stores_read();
  std::string what_is_missing(const Operation& wait);
  void log_event(Event event);
  void apply(const Event& event);

  const KernelCall& kernel_;
  dim3 grid_, block_;
  std::size_t shared_bytes_;
  const Options& options_;
  int threads_count_;
  int warps_;
  StackPool stacks_;
  std::vector<Thread> threads_;
  std::vector<unsigned char> shared_;
  std::vector<std::unique_ptr<SharedPart>> parts_;
  std::array<Log<SharedEntry>, 32> shared_logs_;
  std::array<Log<GlobalEntry>, 32> global_logs_;
  std::vector<Pattern> patterns_;
  RaceDetector race_;
  std::vector<std::pair<RaceDetector::Result, SiteId>> unwritten_;  // reads since the last barrier
  std::unordered_set<std::uint32_t> raced_;  // bytes whose write raced with a read, likewise
  std::vector<MbarrierState> mbarriers_;     // the block's
  std::map<std::uint32_t, Order::Row> counters_known_;  // what arrivals at a counter made known
  std::vector<Event> events_;                           // of the warp's logs
  Counters counters_;
  std::int64_t block_number_ = 0;
  int current_ = 0;
  std::exception_ptr failure_;  // thrown by a thread: an error of the emulator, not of the kernel
  std::map<std::tuple<Fault, SiteId, SiteId>, std::size_t> known_violations_;
};

}  // namespace fa::simt
