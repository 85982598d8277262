#include "common/simt/race.hpp"

#include <algorithm>

namespace fa::simt {

// ---------------------------------------------------------------------------------------------
void Order::begin_block(int threads) {
  threads_ = threads;
  block_time_ = now_++;
  begin_ = now_;
  warp_time_.assign(static_cast<std::size_t>((threads + 31) / 32), 0);
  lane_time_.clear();
  rows_.clear();
}

void Order::warp_barrier(int warp, std::uint32_t mask) {
  const int first = warp * 32, lanes = std::min(32, threads_ - first);
  const std::uint32_t everyone = lanes == 32 ? ~0u : (1u << lanes) - 1;
  if (by_thread()) share_rows(first, lanes, mask);
  if (mask == everyone) {
    warp_time_[static_cast<std::size_t>(warp)] = now_++;
    return;
  }
  if (by_thread()) {
    ++now_;
    return;
  }
  if (lane_time_.empty()) lane_time_.assign(static_cast<std::size_t>(threads_) * 32, 0);
  // Each lane of the mask learns all that any of them knew, and what they did up to now.
  for (int other = 0; other < lanes; ++other) {
    Time latest = mask >> other & 1 ? now_ : 0;
    for (int me = 0; me < lanes; ++me)
      if (mask >> me & 1)
        latest = std::max(latest, lane_time_[lane_index(first + me, first + other)]);
    for (int me = 0; me < lanes; ++me)
      if (mask >> me & 1) lane_time_[lane_index(first + me, first + other)] = latest;
  }
  ++now_;
}

// ---------------------------------------------------------------------------------------------
namespace {
void learn(Order::Time* to, const Order::Time* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i]);
}
}  // namespace

void Order::begin_by_thread() {
  Row rows(static_cast<std::size_t>(threads_) * width(), 0);
  for (int me = 0; me < threads_; ++me)
    for (int other = 0; other < threads_; ++other) {
      Time& t = rows[static_cast<std::size_t>(me) * width() + static_cast<std::size_t>(other)];
      t = block_time_;
      if (me / 32 != other / 32) continue;
      t = std::max(t, warp_time(me / 32));
      if (!lane_time_.empty()) t = std::max(t, lane_time_[lane_index(me, other)]);
    }
  rows_ = std::move(rows);
}

/// All of them know what each knew, and what each did up to now.
void Order::share_rows(int first, int count, std::uint32_t lanes) {
  const auto is_there = [&](int i) { return lanes >> i % 32 & 1; };
  shared_row_.assign(width(), 0);
  for (int i = 0; i < count; ++i) {
    if (!is_there(i)) continue;
    row(first + i)[first + i] = now_;
    learn(shared_row_.data(), row(first + i), width());
  }
  for (int i = 0; i < count; ++i)
    if (is_there(i)) std::copy(shared_row_.begin(), shared_row_.end(), row(first + i));
}

void Order::release(int me, Row& table) {
  row(me)[me] = now_++;
  table.resize(width(), 0);
  learn(table.data(), row(me), width());
}

void Order::acquire(int me, const Row& table) { learn(row(me), table.data(), table.size()); }

void Order::fence_proxy(int me) {
  row(me)[me] = now_++;
  learn(row(me) + threads_, row(me), static_cast<std::size_t>(threads_));
}

Order::Time Order::end_phase(int mbarrier, Row& table) {
  table.resize(width(), 0);
  return table[2 * static_cast<std::size_t>(threads_) + static_cast<std::size_t>(mbarrier)] =
             now_++;
}

// ---------------------------------------------------------------------------------------------
void RaceDetector::begin_block(int threads, std::uint32_t shared_bytes) {
  const std::size_t cells = (shared_bytes + 1) / 2;
  // Cells of earlier blocks need no clearing: their times lie before this block's begin.
  if (cells_.size() < cells || order_.now() > 0xf0000000u) {
    cells_.assign(std::max(cells, cells_.size()), Cell{});
    reads_.clear();
    order_ = Order{};
  }
  order_.begin_block(threads);
  warps_ = static_cast<std::size_t>((threads + 31) / 32);
  stores_.clear();
}

void RaceDetector::begin_by_thread() {
  if (order_.by_thread()) return;
  order_.begin_by_thread();
  reads_.resize(cells_.size() * warps_);
  warp_knows_.assign(warps_ * Order::kMbarriers, 0);
}

void RaceDetector::forget_reads(const Cell& cell) {
  for (std::size_t w = 0; w < warps_; ++w) reads_of(cell)[w].time = 0;
}

// ---------------------------------------------------------------------------------------------
/// What it is that a thread doesn't know of the last write.
void RaceDetector::fault_of_last_write(const Cell& cell, Result& result) const {
  result.fault = cell.last == Last::tile                                 ? Fault::not_waited
                 : cell.last == Last::write || cell.last == Last::atomic ? Fault::race
                                                                         : Fault::copy_in_flight;
  result.other = {cell.writer, true, cell.write_site};
}

void RaceDetector::check_last_reads(const Cell& cell, int t, Result& result) const {
  // A lane, of those that read at that time, that isn't ordered before t; −1: all are.
  const auto unordered = [&](int warp, std::uint32_t lanes, Order::Time time) {
    for (; lanes; lanes &= lanes - 1)
      if (const int reader = warp * 32 + __builtin_ctz(lanes); !order_.known(t, reader, time))
        return reader;
    return -1;
  };
  const auto race_with = [&](int reader, SiteId site) {
    result.fault = Fault::race;
    result.other = {reader, false, site};
  };
  if (cell.read_time > order_.block_time()) {  // else read before the barrier, or never
    const int reader = unordered(cell.reader_warp, cell.read_lanes, cell.read_time);
    if (reader >= 0 || cell.more_warps) return race_with(reader, cell.read_site);  // −1: another's
  }
  if (!order_.by_thread()) return;
  for (int w = 0; w < static_cast<int>(warps_); ++w) {
    const Reads& reads = reads_of(cell)[w];
    if (reads.time <= order_.block_time()) continue;
    const int reader = unordered(w, reads.lanes, reads.time);
    if (reader >= 0) return race_with(reader, reads.site);
  }
}

void RaceDetector::check_read(
    const Cell& cell, std::uint32_t byte, int warp, std::uint32_t lanes, Result& result) const {
  if (result.fault != Fault::none) return;  // one mistake an access is enough
  result.byte = byte;
  for (; lanes; lanes &= lanes - 1) {
    result.thread = warp * 32 + __builtin_ctz(lanes);
    if (cell.write_time < order_.begin()) {
      result.fault = Fault::never_written;
      return;
    }
    if (!knows_last_write(cell, result.thread)) return fault_of_last_write(cell, result);
  }
}

RaceDetector::Result RaceDetector::load_by_thread(
    int warp, std::uint32_t lanes, std::uint32_t at, int bytes, SiteId site) {
  Result result;
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
    Cell& cell = cells_[c];
    if (cell.last == Last::tile && cell.write_time >= order_.begin()) {
      // A warp's lanes mostly know of a landed tile together: asked once a phase.
      Order::Time& known =
          warp_knows_[static_cast<std::size_t>(warp) * Order::kMbarriers + cell.writer];
      if (cell.write_time > known) {
        check_read(cell, c * 2, warp, lanes, result);
        if (lanes == ~0u && result.fault == Fault::none) known = cell.write_time;
      }
    } else if (!is_known_to_all(cell)) {
      check_read(cell, c * 2, warp, lanes, result);
    }
    note_read(reads_of(cell)[warp], warp, lanes, site);
  }
  return result;
}

void RaceDetector::check_write(const Cell& cell, std::uint32_t byte, int t, Result& result) const {
  if (result.fault != Fault::none) return;
  result.thread = t;
  result.byte = byte;
  if (cell.write_time >= order_.begin() && !knows_last_write(cell, t))
    return fault_of_last_write(cell, result);
  if (cell.stored) check_stores(byte, t, result);
  if (result.fault != Fault::none) return;
  if (cell.read_time > order_.block_time() || order_.by_thread()) check_last_reads(cell, t, result);
}

/// Does t know that the stores by TMA have read this byte?
void RaceDetector::check_stores(std::uint32_t byte, int t, Result& result) const {
  for (const Store& store : stores_) {
    if (byte < store.at || byte - store.at >= static_cast<std::uint32_t>(store.bytes)) continue;
    if (store.waited != 0 && order_.known(t, store.thread, store.waited)) continue;
    result.fault = Fault::still_read;
    result.other = {store.thread, false, store.site};
    return;
  }
}

/// An ordinary access that is ordered before a copy of thread t: is a fence between as well?
void RaceDetector::check_fence(const Other& other, Order::Time time, int t, Result& result) const {
  if (result.fault != Fault::none || time < order_.begin() || order_.fenced(t, other.thread, time))
    return;
  result.fault = Fault::not_fenced;
  result.other = other;
}

/// What check_write found ordered: is a fence between as well?
void RaceDetector::check_fence(const Cell& cell, int t, Result& result) const {
  const auto check_reads = [&](int warp, std::uint32_t lanes, Order::Time time, SiteId site) {
    if (time < order_.begin()) return;
    for (; lanes; lanes &= lanes - 1)
      check_fence({warp * 32 + __builtin_ctz(lanes), false, site}, time, t, result);
  };
  if (cell.last != Last::tile)
    check_fence({cell.writer, true, cell.write_site}, cell.write_time, t, result);
  check_reads(cell.reader_warp, cell.read_lanes, cell.read_time, cell.read_site);
  for (int w = 0; w < static_cast<int>(warps_); ++w) {
    const Reads& reads = reads_of(cell)[w];
    check_reads(w, reads.lanes, reads.time, reads.site);
  }
}

RaceDetector::Result RaceDetector::store(int t, std::uint32_t at, int bytes, SiteId site) {
  Result result;
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
    Cell& cell = cells_[c];
    check_write(cell, c * 2, t, result);
    note_write(cell, t, site, Last::write);
  }
  return result;
}

RaceDetector::Result RaceDetector::copy_begins(int t, std::uint32_t at, int bytes, SiteId site) {
  const Result result = store(t, at, bytes, site);
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c)
    cells_[c].last = Last::copy_in_flight;
  return result;
}

void RaceDetector::copy_lands(int t, std::uint32_t at, int bytes, SiteId site) {
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
    Cell& cell = cells_[c];
    // Overwritten meanwhile: that is reported.
    if (cell.last != Last::copy_in_flight || cell.writer != t) continue;
    note_write(cell, t, site, Last::write);
  }
}

RaceDetector::Result RaceDetector::atomic(int t, std::uint32_t at, SiteId site) {
  Result result;
  const bool in_a_row = is_atomic(at);  // these don't race with each other
  for (std::uint32_t c = at / 2; c < at / 2 + 2; ++c) {
    Cell& cell = cells_[c];
    if (result.fault == Fault::none) {
      result.thread = t;
      result.byte = c * 2;
      if (cell.write_time < order_.begin())
        result.fault = Fault::never_written;
      else if (!in_a_row && !knows_last_write(cell, t))
        fault_of_last_write(cell, result);
      if (result.fault == Fault::none && cell.stored) check_stores(c * 2, t, result);
      if (result.fault == Fault::none) check_last_reads(cell, t, result);
    }
    note_write(cell, t, site, Last::atomic);
  }
  return result;
}

RaceDetector::Result RaceDetector::tile_begins(int t, std::uint32_t at, int bytes, SiteId site) {
  Result result;
  // Most cells have the past of the one before: what holds there holds here.
  Cell before;
  std::vector<Reads> reads_before(warps_);
  const auto is_like_before = [&](const Cell& cell) {
    return !cell.stored && cell.write_time == before.write_time && cell.writer == before.writer &&
           cell.last == before.last && cell.read_time == before.read_time &&
           cell.read_lanes == before.read_lanes &&
           std::equal(reads_before.begin(),
                      reads_before.end(),
                      reads_of(cell),
                      [](const Reads& a, const Reads& b) {
                        return a.time == b.time && (a.time == 0 || a.lanes == b.lanes);
                      });
  };
  const std::uint32_t first = at / 2, end = (at + static_cast<std::uint32_t>(bytes)) / 2;
  for (std::uint32_t c = first; c < end; ++c) {
    Cell& cell = cells_[c];
    if (result.fault == Fault::none && !(c > first && is_like_before(cell))) {
      check_write(cell, c * 2, t, result);
      if (result.fault == Fault::none) check_fence(cell, t, result);
      before = cell;
      std::copy_n(reads_of(cell), warps_, reads_before.begin());
    }
    note_write(cell, t, site, Last::tile_in_flight);
  }
  return result;
}

void RaceDetector::tile_lands(int t, std::uint32_t at, int bytes, SiteId site, int mbarrier) {
  for (std::uint32_t c = at / 2; c < (at + static_cast<std::uint32_t>(bytes)) / 2; ++c) {
    Cell& cell = cells_[c];
    if (cell.last != Last::tile_in_flight || cell.writer != t || cell.write_site != site) continue;
    note_write(cell, mbarrier, site, Last::tile);
  }
}

RaceDetector::Result RaceDetector::store_begins(
    int t, std::uint32_t at, int bytes, int kept, SiteId site) {
  Result result;
  for (std::uint32_t c = at / 2; c < (at + static_cast<std::uint32_t>(bytes)) / 2; ++c) {
    Cell& cell = cells_[c];
    cell.stored = true;
    if (result.fault != Fault::none) continue;
    result.thread = t;
    result.byte = c * 2;
    if (cell.write_time < order_.begin()) {
      if (c * 2 - at < static_cast<std::uint32_t>(kept)) result.fault = Fault::never_written;
    } else if (!knows_last_write(cell, t)) {
      fault_of_last_write(cell, result);
    } else if (cell.last != Last::tile) {
      check_fence({cell.writer, true, cell.write_site}, cell.write_time, t, result);
    }
  }
  // Forgotten: those that all know to be over, and those that this one takes the place of, since its
  // thread's next wait is for both.
  const auto is_past = [&](const Store& s) {
    return (s.waited != 0 && s.waited <= order_.block_time()) ||
           (s.thread == t && s.at == at && s.bytes == bytes);
  };
  stores_.erase(std::remove_if(stores_.begin(), stores_.end(), is_past), stores_.end());
  stores_.push_back({at, bytes, t, site, 0});
  return result;
}

void RaceDetector::stores_read(int t) {
  for (Store& store : stores_)
    if (store.thread == t && store.waited == 0) store.waited = order_.now();
}

}  // namespace fa::simt
