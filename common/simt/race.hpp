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
// Memory. Each 2 bytes (the smallest element) have a cell that knows the last write and the reads
// since. Reads by several warps are remembered as such, with one of them by name.
//
// Later kinds of synchronisation need a new source of order and nothing else: an mbarrier is a
// table of times, one a thread, that arrivals add to and waits take over (Order::known asks it
// last); a bulk copy by TMA is a copy_begins/copy_lands pair whose landing is told by the mbarrier.
#pragma once

#include <cstdint>
#include <vector>

#include "common/simt/site.hpp"

namespace fa::simt {

/// What happened before what, within a block.
class Order {
 public:
  using Time = std::uint32_t;

  void begin_block(int threads);
  void block_barrier() { block_time_ = now_++; }
  void warp_barrier(int warp, std::uint32_t mask);

  Time now() const { return now_; }
  Time begin() const { return begin_; }            // accesses of this block are at or after it
  Time block_time() const { return block_time_; }  // of the last barrier
  Time warp_time(int warp) const { return warp_time_[static_cast<std::size_t>(warp)]; }

  /// Did what `other` did at time t come before what `me` does now?
  bool known(int me, int other, Time t) const {
    if (t <= block_time_ || me == other) return true;
    if (me / 32 != other / 32) return false;
    return t <= warp_time_[static_cast<std::size_t>(me / 32)] ||
           (!lane_time_.empty() && t <= lane_time_[lane_index(me, other)]);
  }

 private:
  static std::size_t lane_index(int me, int other) {
    return static_cast<std::size_t>(me) * 32 + static_cast<std::size_t>(other % 32);
  }

  int threads_ = 0;
  Time now_ = 1;
  Time begin_ = 1;
  Time block_time_ = 0;
  std::vector<Time> warp_time_;  // of the last __syncwarp of the whole warp
  std::vector<Time> lane_time_;  // [thread][lane] of the last one of a part of it; empty: none yet
};

class RaceDetector {
 public:
  enum class Fault {
    none,
    race,            // not ordered with an access of another thread
    never_written,   // read, but nothing wrote it in this block
    copy_in_flight,  // touched by an access while an asynchronous copy is under way
  };

  /// The access that the reported one collides with.
  struct Other {
    int thread = -1;
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
    Result result;
    for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
      Cell& cell = cells_[c];
      // Written by anyone before the last barrier: the common case needs no more than the record.
      if (cell.write_time > order_.block_time() || cell.write_time < order_.begin() ||
          cell.in_flight)
        check_read(cell, c * 2, warp, lanes, result);
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

 private:
  struct Cell {
    Order::Time write_time = 0;
    Order::Time read_time = 0;     // of the latest read since the write
    std::uint32_t read_lanes = 0;  // of warp reader_warp, since the last barrier
    SiteId write_site = 0;
    SiteId read_site = 0;
    std::uint16_t writer = 0;
    std::uint8_t reader_warp = 0;
    bool in_flight : 1, more_warps : 1;  // others than reader_warp read too

    Cell() : in_flight(false), more_warps(false) {}
  };

  void check_read(
      const Cell& cell, std::uint32_t byte, int warp, std::uint32_t lanes, Result& result) const;
  void check_write(const Cell& cell, std::uint32_t byte, int t, Result& result) const;
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
  void note_write(Cell& cell, int t, SiteId site) {
    cell.write_time = order_.now();
    cell.writer = static_cast<std::uint16_t>(t);
    cell.write_site = site;
    cell.read_time = 0;
  }

  Order order_;
  std::vector<Cell> cells_;
};

}  // namespace fa::simt
