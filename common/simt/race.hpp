// Which accesses to shared memory are ordered, and which race.
//
// Order. Time in a block is a counter, `now`, that every synchronisation advances. All accesses
// between two synchronisations of a warp carry the same time. An access of thread a at time t comes
// before what thread b does now if
//     t ≤ the time of the last barrier of the block, or
//     a and b are of one warp, and t ≤ the time of the last __syncwarp that both took part in.
// Two accesses to the same byte, at least one of them a write, that aren't ordered, are a race: it
// makes no difference in which order the emulator happens to run them. So a race is found in every
// run, also when the numbers come out right.
//
// From its first mbarrier or atomic operation on, a block's order is kept thread by thread: what
// each knows is a row of times, one a thread. An arrival adds the arriving thread's row to the
// table of the mbarrier's phase, a wait takes the table over, an atomic operation does both with the
// table of its counter; so does a barrier with the rows of all who meet there. A copy by TMA is a
// writer of its own, of which threads know by its mbarrier's phase alone: each mbarrier has a column
// in the rows. And since ordinary accesses come before such a copy only with a fence_proxy_async
// between, every thread has a second column, of what is known so. A store by TMA, out of shared
// memory, is a reader of its own from when it is asked for until its thread waits for it: a write
// comes after it only if it comes after that wait.
//
// Memory. Each 2 bytes (the smallest element) have a cell that knows the last write and the reads
// since. Reads by several warps are remembered as such, with one of them by name; where order is kept
// by thread, each warp's reads are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/simt/site.hpp"

namespace fa::simt {

/// What happened before what, within a block.
class Order {
 public:
  using Time = std::uint32_t;

  /// What a thread knows, or may learn: see above.
  using Row = std::vector<Time>;
  static constexpr int kMbarriers = 64;  // of a block, at most

  void begin_block(int threads);
  void block_barrier() {
    if (by_thread()) share_rows(0, threads_, ~0u);
    block_time_ = now_++;
  }
  void warp_barrier(int warp, std::uint32_t mask);

  Time now() const { return now_; }
  Time begin() const { return begin_; }            // accesses of this block are at or after it
  Time block_time() const { return block_time_; }  // of the last barrier
  Time warp_time(int warp) const { return warp_time_[static_cast<std::size_t>(warp)]; }

  /// Did what `other` did at time t come before what `me` does now?
  bool known(int me, int other, Time t) const {
    if (t <= block_time_ || me == other) return true;
    const bool same_warp = me / 32 == other / 32;
    if (same_warp && t <= warp_time_[static_cast<std::size_t>(me / 32)]) return true;
    if (by_thread()) return t <= row(me)[other];
    return same_warp && !lane_time_.empty() && t <= lane_time_[lane_index(me, other)];
  }

  /// Is order kept thread by thread? What follows needs it.
  bool by_thread() const { return !rows_.empty(); }
  void begin_by_thread();

  /// Is a fence_proxy_async between, too?
  bool fenced(int me, int other, Time t) const { return t <= row(me)[threads_ + other]; }
  /// Does `me` know of the phase of this mbarrier that was over at t?
  bool knows_phase(int me, int mbarrier, Time t) const {
    return t <= row(me)[2 * threads_ + mbarrier];
  }

  void release(int me, Row& table);  // the table learns what `me` did and knows
  void acquire(int me, const Row& table);
  void fence_proxy(int me);
  /// Whoever takes over the table of a phase knows that it is over. Returns when that was.
  Time end_phase(int mbarrier, Row& table);

 private:
  Time* row(int t) { return rows_.data() + static_cast<std::size_t>(t) * width(); }
  const Time* row(int t) const { return rows_.data() + static_cast<std::size_t>(t) * width(); }
  std::size_t width() const { return 2 * static_cast<std::size_t>(threads_) + kMbarriers; }
  void share_rows(int first, int count, std::uint32_t lanes);
  static std::size_t lane_index(int me, int other) {
    return static_cast<std::size_t>(me) * 32 + static_cast<std::size_t>(other % 32);
  }

  int threads_ = 0;
  Time now_ = 1;
  Time begin_ = 1;
  Time block_time_ = 0;
  std::vector<Time> warp_time_;  // of the last __syncwarp of the whole warp
  std::vector<Time> lane_time_;  // [thread][lane] of the last one of a part of it; empty: none yet
  Row rows_;  // [thread][width: threads, fenced threads, mbarriers]; empty: not by thread
  Row shared_row_;
};

class RaceDetector {
 public:
  enum class Fault {
    none,
    race,            // not ordered with an access of another thread
    never_written,   // read, but nothing wrote it in this block
    copy_in_flight,  // touched by an access while an asynchronous copy is under way
    not_waited,      // by a thread that doesn't know of the phase in which a copy landed
    not_fenced,      // touched by a copy by TMA, ordered but without a fence_proxy_async
    still_read,      // written, not ordered after the wait for a store by TMA
  };

  /// The access that the reported one collides with.
  struct Other {
    int thread = -1;  // not_waited: the mbarrier's number
    bool write = false;
    SiteId site = 0;
  };

  struct Result {
    Fault fault = Fault::none;
    int thread = 0;
    std::uint32_t byte = 0;  // the first one concerned
    Other other;
  };

  void begin_block(int threads, std::uint32_t shared_bytes);
  Order& order() { return order_; }

  /// The lanes of a warp read bytes [at, at + bytes), each of them all of it. (ldmatrix is a read
  /// by every lane: a row's bytes go to many.)
  Result load(int warp, std::uint32_t lanes, std::uint32_t at, int bytes, SiteId site) {
    if (order_.by_thread()) return load_by_thread(warp, lanes, at, bytes, site);
    Result result;
    for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
      Cell& cell = cells_[c];
      if (!is_known_to_all(cell)) check_read(cell, c * 2, warp, lanes, result);
      note_read(cell, warp, lanes, site);
    }
    return result;
  }

  /// Thread t writes them.
  Result store(int t, std::uint32_t at, int bytes, SiteId site);

  /// An asynchronous copy by thread t into [at, at + bytes): from when it is issued, and when t
  /// knows that it has landed. Between the two nobody may touch the bytes, not even t.
  Result copy_begins(int t, std::uint32_t at, int bytes, SiteId site);
  void copy_lands(int t, std::uint32_t at, int bytes, SiteId site);

  /// From a block's first mbarrier or atomic operation on.
  void begin_by_thread();

  /// Thread t adds to the 4 bytes there in one step.
  Result atomic(int t, std::uint32_t at, SiteId site);
  /// Were these written in this way last?
  bool is_atomic(std::uint32_t at) const {
    return cells_[at / 2].last == Last::atomic && cells_[at / 2].write_time >= order_.begin();
  }

  /// A copy by TMA that thread t issues, and its landing in a phase of that mbarrier. Nobody may
  /// touch the bytes who doesn't know that the phase is over.
  Result tile_begins(int t, std::uint32_t at, int bytes, SiteId site);
  void tile_lands(int t, std::uint32_t at, int bytes, SiteId site, int mbarrier);

  /// A store by TMA that thread t asks for, which reads the bytes, and t's wait until all of its
  /// stores have. What it reads beyond the first `kept` bytes goes nowhere, and need not have been
  /// written.
  Result store_begins(int t, std::uint32_t at, int bytes, int kept, SiteId site);
  void stores_read(int t);

 private:
  /// What wrote a cell last.
  enum class Last : std::uint8_t {
    write,
    atomic,
    copy_in_flight,
    tile_in_flight,
    tile,  // writer: the number of the mbarrier that told of it
  };

  struct Cell {
    Order::Time write_time = 0;
    Order::Time read_time = 0;     // of the latest read since the write
    std::uint32_t read_lanes = 0;  // of warp reader_warp, since the last barrier
    SiteId write_site = 0;
    SiteId read_site = 0;
    std::uint16_t writer = 0;
    std::uint8_t reader_warp = 0;
    Last last : 6;
    bool stored : 1;      // there may be stores by TMA since the write: see stores_
    bool more_warps : 1;  // others than reader_warp read too

    Cell() : last(Last::write), stored(false), more_warps(false) {}
  };

  /// A store by TMA.
  struct Store {
    std::uint32_t at = 0;  // byte
    int bytes = 0;
    int thread = 0;
    SiteId site = 0;
    Order::Time waited = 0;  // when its thread did; 0: it hasn't yet
  };

  /// A warp's reads of a cell, by the rules of Cell.
  struct Reads {
    Order::Time time = 0;
    std::uint32_t lanes = 0;
    SiteId site = 0;
  };

  /// Written by anyone before the last barrier: the common case needs no more than the record.
  bool is_known_to_all(const Cell& cell) const {
    return cell.write_time <= order_.block_time() && cell.write_time >= order_.begin() &&
           cell.last == Last::write;
  }
  bool knows_last_write(const Cell& cell, int t) const {
    if (cell.last == Last::write || cell.last == Last::atomic)
      return order_.known(t, cell.writer, cell.write_time);
    return cell.last == Last::tile && order_.knows_phase(t, cell.writer, cell.write_time);
  }
  Result load_by_thread(int warp, std::uint32_t lanes, std::uint32_t at, int bytes, SiteId site);
  void check_read(
      const Cell& cell, std::uint32_t byte, int warp, std::uint32_t lanes, Result& result) const;
  void check_write(const Cell& cell, std::uint32_t byte, int t, Result& result) const;
  void check_fence(const Cell& cell, int t, Result& result) const;
  void check_fence(const Other& other, Order::Time time, int t, Result& result) const;
  void check_stores(std::uint32_t byte, int t, Result& result) const;
  void fault_of_last_write(const Cell& cell, Result& result) const;
  void check_last_reads(const Cell& cell, int t, Result& result) const;
  const Reads* reads_of(const Cell& cell) const {
    return reads_.data() + static_cast<std::size_t>(&cell - cells_.data()) * warps_;
  }
  Reads* reads_of(const Cell& cell) {
    return const_cast<Reads*>(std::as_const(*this).reads_of(cell));
  }
  void note_read(Cell& cell, int warp, std::uint32_t lanes, SiteId site) {
    if (cell.read_time > order_.block_time()) {  // not the first read since the barrier
      if (cell.reader_warp != warp) {
        cell.more_warps = true;
      } else if (cell.read_time == order_.now() || cell.read_time > order_.warp_time(warp)) {
        cell.read_lanes |= lanes;
      } else {  // earlier reads come before this one: who is ordered after it is so after them
        cell.read_lanes = lanes;
        cell.read_site = site;
      }
      cell.read_time = order_.now();
    } else {
      cell.read_time = order_.now();
      cell.read_lanes = lanes;
      cell.reader_warp = static_cast<std::uint8_t>(warp);
      cell.read_site = site;
      cell.more_warps = false;
    }
  }
  void note_read(Reads& reads, int warp, std::uint32_t lanes, SiteId site) {
    if (reads.time > order_.block_time() &&
        (reads.time == order_.now() || reads.time > order_.warp_time(warp))) {
      reads.lanes |= lanes;
    } else {
      reads.lanes = lanes;
      reads.site = site;
    }
    reads.time = order_.now();
  }
  void note_write(Cell& cell, int t, SiteId site, Last what) {
    cell.write_time = order_.now();
    cell.writer = static_cast<std::uint16_t>(t);
    cell.write_site = site;
    cell.last = what;
    cell.read_time = 0;
    cell.stored = false;  // who comes after this write comes after the stores before it
    if (order_.by_thread()) forget_reads(cell);
  }
  void forget_reads(const Cell& cell);

  Order order_;
  std::vector<Cell> cells_;
  std::size_t warps_ = 0;
  std::vector<Reads> reads_;             // [cell][warp], where order is kept by thread
  std::vector<Order::Time> warp_knows_;  // [warp][mbarrier]: a phase's end that all lanes know of
  std::vector<Store> stores_;            // that not all threads know to have been waited for
};

}  // namespace fa::simt
