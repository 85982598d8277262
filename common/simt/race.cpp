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
}

void Order::warp_barrier(int warp, std::uint32_t mask) {
  const int first = warp * 32, lanes = std::min(32, threads_ - first);
  const std::uint32_t everyone = lanes == 32 ? ~0u : (1u << lanes) - 1;
  if (mask == everyone) {
    warp_time_[static_cast<std::size_t>(warp)] = now_++;
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
void RaceDetector::begin_block(int threads, std::uint32_t shared_bytes) {
  const std::size_t cells = (shared_bytes + 1) / 2;
  // Cells of earlier blocks need no clearing: their times lie before this block's begin.
  if (cells_.size() < cells || order_.now() > 0xf0000000u) {
    cells_.assign(std::max(cells, cells_.size()), Cell{});
    order_ = Order{};
  }
  order_.begin_block(threads);
}

void RaceDetector::check_read(
    const Cell& cell, std::uint32_t byte, int warp, std::uint32_t lanes, Result& result) const {
  if (result.fault != Fault::none) return;  // one mistake an access is enough
  for (; lanes && result.fault == Fault::none; lanes &= lanes - 1) {
    result.thread = warp * 32 + __builtin_ctz(lanes);
    if (cell.write_time < order_.begin())
      result.fault = Fault::never_written;
    else if (cell.in_flight)
      result.fault = Fault::copy_in_flight;
    else if (!order_.known(result.thread, cell.writer, cell.write_time))
      result.fault = Fault::race;
  }
  result.byte = byte;
  if (result.fault == Fault::copy_in_flight || result.fault == Fault::race)
    result.other = {cell.writer, true, cell.write_site};
}

void RaceDetector::check_write(const Cell& cell, std::uint32_t byte, int t, Result& result) const {
  if (result.fault != Fault::none) return;
  result.thread = t;
  result.byte = byte;
  if (cell.write_time >= order_.begin()) {
    if (cell.in_flight)
      result.fault = Fault::copy_in_flight;
    else if (!order_.known(t, cell.writer, cell.write_time))
      result.fault = Fault::race;
    if (result.fault != Fault::none) {
      result.other = {cell.writer, true, cell.write_site};
      return;
    }
  }
  if (cell.read_time <= order_.block_time()) return;  // read before the barrier, or never
  const int first = cell.reader_warp * 32;
  int reader = -1;
  for (int lane = 0; lane < 32 && reader < 0; ++lane)
    if ((cell.read_lanes >> lane & 1) && !order_.known(t, first + lane, cell.read_time))
      reader = first + lane;
  if (reader < 0 && !cell.more_warps) return;
  result.fault = Fault::race;
  result.other = {reader, false, cell.read_site};  // reader −1: one of another warp
}

RaceDetector::Result RaceDetector::store(int t, std::uint32_t at, int bytes, SiteId site) {
  Result result;
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
    Cell& cell = cells_[c];
    check_write(cell, c * 2, t, result);
    note_write(cell, t, site);
    cell.in_flight = false;
  }
  return result;
}

RaceDetector::Result RaceDetector::copy_begins(int t, std::uint32_t at, int bytes, SiteId site) {
  const Result result = store(t, at, bytes, site);
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c)
    cells_[c].in_flight = true;
  return result;
}

void RaceDetector::copy_lands(int t, std::uint32_t at, int bytes, SiteId site) {
  for (std::uint32_t c = at / 2; c <= (at + static_cast<std::uint32_t>(bytes) - 1) / 2; ++c) {
    Cell& cell = cells_[c];
    if (!cell.in_flight || cell.writer != t) continue;  // overwritten meanwhile, and reported
    note_write(cell, t, site);
    cell.in_flight = false;
  }
}

}  // namespace fa::simt
