// mbarriers and copies by TMA, as the machine keeps them.
//
// What they do is done when a thread says so. What order they make is a matter of the warp's log,
// like the accesses around them: an Event stands there, and takes its effect when the log is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/attention/view.hpp"
#include "common/simt/race.hpp"

namespace fa::simt {

/// A copy of rows [row, row + rows) of one head into pages of 64 columns of 2 bytes. Its 16-byte
/// pieces change places as SWIZZLE_128B says: by the address, bits 4 to 6 ^= bits 7 to 9.
struct TileCopy {
  const unsigned char* from = nullptr;  // row 0 of the head; nullptr: no such head
  std::uint64_t address = 0;            // the same, as counted
  Index row_bytes = 0;                  // from row to row there
  Index N = 0;                          // rows of the head: those beyond are 0
  Index row = 0;
  int rows = 0, pages = 0;
  std::uint32_t to = 0;  // byte of the block's shared memory
  bool fits = true;      // into its part of it; else it is reported and not done
  int thread = 0;
  SiteId site = 0;

  int bytes() const { return rows * pages * 128; }
  void land(unsigned char* shared) const;
};

/// A copy of a page, swizzled likewise, to rows [row, row + rows) and 64 columns of one head.
struct PageStore {
  unsigned char* to = nullptr;  // row 0 of the head, at the first of the columns
  std::uint64_t address = 0;    // the same, as counted
  Index row_bytes = 0;          // from row to row there
  Index N = 0;                  // rows of the head: others aren't written. 0: no such head, or page
  Index row = 0;
  int rows = 0;
  std::uint32_t from = 0;  // byte of the block's shared memory
  bool fits = true;        // into its part of it; else it is reported and not done
  bool below_0 = false;    // has it a coordinate below 0? Then it is reported and not done
  SiteId site = 0;

  int bytes() const { return rows * 128; }
  /// Rows of the page that are rows of the head: its first ones.
  int kept() const { return static_cast<int>(std::clamp<Index>(N - row, 0, rows)); }
  void write(const unsigned char* shared) const;
};

struct MbarrierState {
  std::uint32_t at = 0;  // byte of the block's shared memory
  int number = 0;        // in the order of their making
  int arrivals = 0;      // of each phase

  // The present phase.
  std::uint32_t phase = 0;
  int missing = 0;             // arrivals
  std::int64_t expected = 0;   // bytes, by those that have come
  std::int64_t under_way = 0;  // bytes of copies
  std::vector<TileCopy> copies;

  // For the order of accesses.
  int maker = 0;
  SiteId made_at = 0;
  Order::Time made = 0;
  Order::Time ended = 0;            // the phase before this one
  std::array<Order::Row, 2> known;  // what the arrivals of a phase made known, by its parity
  std::array<std::uint32_t, 2> known_phase{};
  struct Arrivals {
    std::uint32_t phase = 0;
    bool copies = false;                            // some of its bytes come by copies
    std::vector<std::pair<int, Order::Time>> came;  // threads, and when
  };
  std::array<Arrivals, 2> arrivals_of;  // a phase, by its parity
  Arrivals& arrivals_in(std::uint32_t of_phase);

  /// Nothing is missing but the landing of copies.
  bool is_full() const { return missing == 0 && under_way == expected; }
  void next_phase();
  Order::Row& table(std::uint32_t of_phase);
};

/// What a log's entry of the kind Access::event stands for.
struct Event {
  enum Kind { init, arrive, atomic, fence, copy, store, stores_read } kind;
  SiteId site;
  std::uint32_t at = 0;     // byte of the mbarrier or counter
  std::uint32_t phase = 0;  // of the mbarrier, then
  bool ends = false;        // arrive: the phase
  std::uint32_t to = 0;     // copy, store: byte
  int bytes = 0;
  int thread = 0;
  int kept = 0;  // store: how many of the bytes go to global memory
};

}  // namespace fa::simt
