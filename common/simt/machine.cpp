#include "common/simt/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fa::simt {

void enter_file(const char* file) {
  hot.file = file;
  hot.file_site = site_of_file(file);
}

// ---------------------------------------------------------------------------------------------
// Buffers and parts of shared memory, by name

bool Buffer::inside_a_row(Index at, Index count) const {
  for (const Axis& axis : axes)
    if (axis.stride > 0) at -= std::min(at / axis.stride, axis.size - 1) * axis.stride;
  return at + count <= d;
}

std::string Buffer::name_of(Index at) const {
  if (d == 0) return fmt::format("{}[{}]", name, at);
  const auto beyond = [&](Index n, const char* where) {
    return fmt::format("{}, {} element{} {}", name, n, n == 1 ? "" : "s", where);
  };
  if (at < 0) return beyond(-at, "before its first");
  if (at >= elements) return beyond(at - elements + 1, "behind its last");
  Index rest = at, b_h_i[3] = {};
  for (const Axis& axis : axes) {
    if (axis.stride <= 0) continue;
    b_h_i[axis.position] = std::min(rest / axis.stride, axis.size - 1);
    rest -= b_h_i[axis.position] * axis.stride;
  }
  return fmt::format("{}[{}, {}, {}, {}]", name, b_h_i[0], b_h_i[1], b_h_i[2], rest);
}

std::string SharedPart::name_of(Index at) const {
  if (columns == 0) return fmt::format("{}[{}]", name, at);
  const Index row = at >= 0 ? at / columns : -((-at + columns - 1) / columns);
  return fmt::format("{}[{}][{}]", name, row, at - row * columns);
}

// ---------------------------------------------------------------------------------------------
Worker::Worker(const KernelCall& kernel,
               dim3 grid,
               dim3 block,
               std::size_t shared_bytes,
               const Options& options)
    : kernel_(kernel),
      grid_(grid),
      block_(block),
      shared_bytes_(shared_bytes),
      options_(options),
      threads_count_(static_cast<int>(block.x * block.y * block.z)),
      warps_((threads_count_ + 31) / 32),
      stacks_(static_cast<std::size_t>(threads_count_), options.stack_bytes),
      threads_(static_cast<std::size_t>(threads_count_)),
      shared_((shared_bytes + 15) / 16 * 16),
      patterns_(256) {
  for (int t = 0; t < threads_count_; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    const unsigned n = static_cast<unsigned>(t);
    thread.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
    thread.fiber.prepare(
        stacks_.stack(static_cast<std::size_t>(t)), stacks_.bytes(), &Worker::run_thread, this);
  }
}

void Worker::run_thread(void* self) {
  Worker& worker = *static_cast<Worker*>(self);
  try {
    worker.kernel_.run_thread(worker.kernel_.arguments);
  } catch (...) {  // must not leave the fiber's stack
    worker.failure_ = std::current_exception();
  }
  worker.threads_[static_cast<std::size_t>(worker.current_)].state = State::done;
}

void Worker::run_block(std::int64_t number) {
  block_number_ = number;
  counters_ = {};
  std::fill(shared_.begin(), shared_.end(), static_cast<unsigned char>(0xff));  // NaN in every type
  if (options_.checks) race_.begin_block(threads_count_, static_cast<std::uint32_t>(shared_bytes_));
  hot.worker = this;
  hot.logging = options_.checks || options_.counters;
  hot.shared = shared_.data();
  hot.exponentials = 0;
  hot.block_dim = block_;
  hot.grid_dim = grid_;
  const std::uint64_t n = static_cast<std::uint64_t>(number);
  hot.block = {static_cast<unsigned>(n % grid_.x),
               static_cast<unsigned>(n / grid_.x % grid_.y),
               static_cast<unsigned>(n / grid_.x / grid_.y)};
  for (Thread& thread : threads_) {
    thread.state = State::ready;
    thread.copies.clear();
    thread.group = 0;
    thread.stores.clear();
  }
  mbarriers_.clear();
  counters_known_.clear();
  do {
    run_warps();
  } while (release_barrier());
  if (failure_) std::rethrow_exception(failure_);
  counters_.exponentials += hot.exponentials;
  total += counters_;
  hot.worker = nullptr;
}

void Worker::resume(int t) {
  Thread& thread = threads_[static_cast<std::size_t>(t)];
  const std::size_t lane = static_cast<std::size_t>(t % 32);
  Log<SharedEntry>& shared_log = shared_logs_[lane];
  Log<GlobalEntry>& global_log = global_logs_[lane];
  hot.shared_next = shared_log.next, hot.shared_end = shared_log.end();
  hot.global_next = global_log.next, hot.global_end = global_log.end();
  hot.thread = thread.index;
  current_ = t;
  thread.fiber.resume();
  shared_log.next = hot.shared_next;
  global_log.next = hot.global_next;
}

// ---------------------------------------------------------------------------------------------
// What the running thread calls

template <class Entry>
static void grow(Log<Entry>& log, Entry*& next, Entry*& end) {
  log.next = next;
  log.grow();
  next = log.next;
  end = log.end();
}
void Worker::grow_shared_log() {
  grow(shared_logs_[static_cast<std::size_t>(current_ % 32)], hot.shared_next, hot.shared_end);
}
void Worker::grow_global_log() {
  grow(global_logs_[static_cast<std::size_t>(current_ % 32)], hot.global_next, hot.global_end);
}
void grow_shared_log() { hot.worker->grow_shared_log(); }
void grow_global_log() { hot.worker->grow_global_log(); }

void Worker::meet(const Operation& operation) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.operation = operation;
  thread.state = State::waiting;
  thread.fiber.suspend();
}
void meet(const Operation& operation) { hot.worker->meet(operation); }

const SharedPart* Worker::carve(std::size_t index, const SharedPart& part, SiteId site) {
  if (index == parts_.size()) {
    parts_.push_back(std::make_unique<SharedPart>(part));
    const Index room = std::max<Index>(0, static_cast<Index>(shared_bytes_) - Index{part.begin});
    parts_.back()->elements = std::min(part.elements, room / part.element_bytes);
  }
  const SharedPart& known = *parts_[index];
  if (known.elements != part.elements)
    violate(Fault::shared_bounds,
            site,
            part.name,
            fmt::format("the tile ends at byte {}, the block's dynamic shared memory at {}",
                        Index{part.begin} + part.elements * part.element_bytes,
                        shared_bytes_));
  if (known.begin != part.begin || known.element_bytes != part.element_bytes ||
      known.columns != part.columns)
    violate(
        Fault::shared_bounds,
        site,
        part.name,
        fmt::format("threads don't agree on what lies where: another has {} there", known.name));
  return &known;
}

void violate_global(const Buffer& buffer, Index at, Access what, SiteId site, int alignment) {
  const Fault fault = alignment ? Fault::misaligned : Fault::global_bounds;
  if (!hot.worker->is_new_violation(fault, site)) return;
  hot.worker->violate(
      fault,
      site,
      buffer.name_of(at),
      alignment ? fmt::format("not at a multiple of the {} bytes that it takes", alignment)
                : fmt::format("{}, but not an element of the buffer",
                              what == Access::store ? "written" : "read"));
}

void violate_shared(const SharedPart& part, Index at, Access what, SiteId site, int alignment) {
  const Fault fault = alignment ? Fault::misaligned : Fault::shared_bounds;
  if (!hot.worker->is_new_violation(fault, site)) return;
  hot.worker->violate(
      fault,
      site,
      part.name_of(at),
      alignment
          ? fmt::format("not at a multiple of the {} bytes that it takes", alignment)
          : fmt::format("{}, but not in the tile", what == Access::store ? "written" : "read"));
}

void violate_row(const SharedPart& part, Index row, Index column, SiteId site, Index elements) {
  if (!hot.worker->is_new_violation(Fault::shared_bounds, site)) return;
  hot.worker->violate(
      Fault::shared_bounds,
      site,
      fmt::format("{}[{}][{}]", part.name, row, column),
      fmt::format("{}the row has {} columns",
                  elements > 1 ? fmt::format("{} elements from there on, but ", elements) : "",
                  part.columns));
}

void violate_copy_size(int bytes, int element_bytes, SiteId site) {
  if (!hot.worker->is_new_violation(Fault::copy_size, site)) return;
  hot.worker->violate(
      Fault::copy_size,
      site,
      fmt::format("{} bytes", bytes),
      fmt::format("must be from 0 to 16, and a multiple of an element's {}", element_bytes));
}

bool Worker::is_new_violation(Fault fault, SiteId site, SiteId other_site) {
  const auto known = known_violations_.find({fault, site, other_site});
  if (known == known_violations_.end()) return true;
  ++violation_count;
  ++violations[known->second].count;
  return false;
}

void Worker::violate(Fault fault, SiteId site, std::string address, std::string detail) {
  Violation v;
  v.fault = fault;
  v.site = site;
  v.address = std::move(address);
  v.detail = std::move(detail);
  v.thread = current_;
  violate(std::move(v));
}

void Worker::violate(Violation v) {
  if (!is_new_violation(v.fault, v.site, v.other_site)) return;
  ++violation_count;
  known_violations_[{v.fault, v.site, v.other_site}] = violations.size();
  v.kernel = kernel_.name;
  v.block = block_number_;
  violations.push_back(std::move(v));
}

// ---------------------------------------------------------------------------------------------
// Warps and barriers

/// All warps run as far as they can. Each does before the next one begins, so the first is always
/// ahead; where others may let it go on, it is asked again after each of them.
void Worker::run_warps() {
  for (int w = 0; w < warps_; ++w) {
    const bool ran = run_warp(options_.copies == Copies::early ? warps_ - 1 - w : w);
    if (mbarriers_.empty()) continue;
    if (ran || (w == warps_ - 1 && land_tiles())) w = -1;
  }
}

/// Says whether any of its lanes could run.
bool Worker::run_warp(int warp) {
  const int first = warp * 32, last = std::min(first + 32, threads_count_);
  bool ran = false;
  do {
    for (int t = first; t < last; ++t) {
      if (threads_[static_cast<std::size_t>(t)].state != State::ready) continue;
      resume(t);
      ran = true;
    }
    flush(warp);
  } while (complete_operations(warp));
  return ran;
}

/// Completes the operations of a warp at which all lanes of the mask are. Lanes that have returned
/// count as there. Says whether any was completed.
bool Worker::complete_operations(int warp) {
  const int first = warp * 32, lanes = std::min(32, threads_count_ - first);
  std::uint32_t waiting = 0, done = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const State state = threads_[static_cast<std::size_t>(first + lane)].state;
    waiting |= std::uint32_t{state == State::waiting} << lane;
    done |= std::uint32_t{state == State::done} << lane;
  }
  const std::uint32_t alive = (lanes == 32 ? ~0u : (1u << lanes) - 1) & ~done;
  bool any = false;
  while (waiting) {
    const int leader = __builtin_ctz(waiting);
    const Operation& op = threads_[static_cast<std::size_t>(first + leader)].operation;
    std::uint32_t together = 0;
    void* arguments[32] = {};
    for (std::uint32_t rest = waiting; rest; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      const Operation& other = threads_[static_cast<std::size_t>(first + lane)].operation;
      if (other.complete != op.complete || other.mask != op.mask || other.site != op.site ||
          other.key != op.key)
        continue;
      together |= 1u << lane;
      arguments[lane] = other.arguments;
    }
    waiting &= ~together;
    if (op.complete == nullptr) continue;
    if (op.key ? !is_phase_over(op) : (op.mask & alive) != together) continue;
    op.complete(*this, warp, together, arguments);
    for (std::uint32_t rest = together; rest; rest &= rest - 1)
      threads_[static_cast<std::size_t>(first + __builtin_ctz(rest))].state = State::ready;
    any = true;
  }
  return any;
}

/// All warps have run as far as they can. True if the block goes on.
bool Worker::release_barrier() {
  const auto is_done = [](const Thread& t) { return t.state == State::done; };
  settle_unwritten();
  if (std::all_of(threads_.begin(), threads_.end(), is_done)) {
    check_copies_landed();
    check_stores_read();
    return false;
  }
  const Thread* leader = nullptr;
  bool all_there = true, all_alive_there = true;
  for (const Thread& thread : threads_) {
    if (is_done(thread)) {
      all_there = false;
      continue;
    }
    if (!leader) leader = &thread;
    if (thread.operation.complete != nullptr || thread.operation.site != leader->operation.site)
      all_alive_there = false;
  }
  if (!all_there || !all_alive_there) report_stuck();
  if (!all_alive_there) {
    abandon();
    return false;
  }
  ++counters_.block_barriers;
  race_.order().block_barrier();
  int any = 0;  // of __syncthreads_or's predicates
  for (const Thread& thread : threads_)
    if (thread.operation.arguments) any |= *static_cast<const int*>(thread.operation.arguments);
  for (Thread& thread : threads_) {
    if (is_done(thread)) continue;
    if (thread.operation.arguments) *static_cast<int*>(thread.operation.arguments) = any;
    thread.state = State::ready;
  }
  return true;
}

/// Names what can't be completed, and where all threads are.
void Worker::report_stuck() {
  const auto blocked = [&](auto at) {
    return std::find_if(threads_.begin(), threads_.end(), [&](const Thread& t) {
      return t.state == State::waiting && at(t.operation);
    });
  };
  Violation v;
  auto stuck = blocked([](const Operation& op) { return op.key != 0; });
  if (stuck != threads_.end()) {
    v.fault = Fault::mbarrier_wait;
    v.address = name_of_shared(stuck->operation.mbarrier());
    v.detail = what_is_missing(stuck->operation) + ": " + whereabouts();
  } else if (stuck = blocked([](const Operation& op) { return op.complete != nullptr; });
             stuck != threads_.end()) {
    v.fault = Fault::divergence;
    v.address = stuck->operation.name;
    v.detail = fmt::format("with mask {:#010x} not reached by all of its lanes: {}",
                           stuck->operation.mask,
                           whereabouts());
  } else {
    stuck = blocked([](const Operation&) { return true; });
    v.fault = Fault::barrier;
    v.address = stuck->operation.name;
    v.detail = "not reached by all threads of the block: " + whereabouts();
  }
  v.thread = static_cast<int>(stuck - threads_.begin());
  v.site = stuck->operation.site;
  violate(std::move(v));
}

/// "threads 0-31 wait at __syncthreads (kernel.cuh:71); threads 32-63 have returned"
std::string Worker::whereabouts() const {
  std::vector<std::pair<std::string, std::string>> places;  // place, threads
  for (int t = 0; t < threads_count_;) {
    const auto place = [&](int n) {
      const Thread& thread = threads_[static_cast<std::size_t>(n)];
      if (thread.state == State::done) return std::string("returned");
      const Operation& op = thread.operation;
      std::string text = fmt::format("at {} ({})", op.name, name_of_site(op.site));
      if (op.key)
        text += " for " + name_of_element(op.mbarrier());
      else if (op.complete)
        text += fmt::format(" with mask {:#010x}", op.mask);
      return text;
    };
    const std::string here = place(t);
    int end = t + 1;
    while (end < threads_count_ && place(end) == here) ++end;
    const std::string range = end - t == 1 ? std::to_string(t) : fmt::format("{}-{}", t, end - 1);
    const auto known = std::find_if(
        places.begin(), places.end(), [&](const auto& entry) { return entry.first == here; });
    if (known == places.end())
      places.emplace_back(here, range);
    else
      known->second += ", " + range;
    t = end;
  }
  std::string text;
  for (auto& [where, who] : places) {
    if (who.size() > 60) who = who.substr(0, who.find(',', 50)) + ", …";
    text += fmt::format("{}{} {}", text.empty() ? "threads " : "; threads ", who, where);
  }
  return text;
}

/// Gives the block up: its waiting threads will never be resumed.
void Worker::abandon() {
  for (int t = 0; t < threads_count_; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state == State::done) continue;
    thread.state = State::done;
    thread.fiber.prepare(
        stacks_.stack(static_cast<std::size_t>(t)), stacks_.bytes(), &Worker::run_thread, this);
  }
}

// ---------------------------------------------------------------------------------------------
// Logs: counting and race checks

void Worker::flush(int warp) {
  flush(warp, shared_logs_);
  flush(warp, global_logs_);
  events_.clear();
}

template <class Entry>
void Worker::flush(int warp, std::array<Log<Entry>, 32>& logs) {
  // Lanes that have anything, and how far all of them go together.
  int lanes = 0, lane_of[32];
  const Entry* entries[32];
  std::size_t shortest = ~std::size_t{0}, longest = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const Log<Entry>& log = logs[static_cast<std::size_t>(lane)];
    const std::size_t size = log.size();
    if (size == 0) continue;
    lane_of[lanes] = lane;
    entries[lanes++] = log.entries.data();
    shortest = std::min(shortest, size);
    longest = std::max(longest, size);
  }
  if (lanes == 0) return;

  WarpAccess access;
  access.lanes = lanes;
  std::copy(lane_of, lane_of + lanes, access.lane);
  std::size_t k = 0;
  for (; k < shortest; ++k) {
    const Entry leader = entries[0][k];
    std::uint64_t different = 0;
    for (int i = 0; i < lanes; ++i) {
      const Entry entry = entries[i][k];
      different |= entry.tag() ^ leader.tag();
      access.at[i] = entry.at();
    }
    if (different) break;
    if (leader.what() == Access::event) {
      for (int i = 0; i < lanes; ++i) apply(events_[access.at[i]]);
      continue;
    }
    access.bytes = leader.bytes();
    const Pattern& p = pattern<Entry>(access, leader.site());
    if (options_.counters) account(leader, access, p);
    if (!options_.checks || std::is_same_v<Entry, GlobalEntry>) continue;
    if (leader.what() == Access::load) {
      const std::uint32_t first = static_cast<std::uint32_t>(leader.at());
      for (std::size_t place = 0; place < static_cast<std::size_t>(p.places); ++place) {
        const std::uint32_t at = first + p.place_offset[place];
        const RaceDetector::Result result =
            race_.load(warp, p.place_lanes[place], at, access.bytes, leader.site());
        if (result.fault != RaceDetector::Fault::none) report_race(result, leader.site(), "read");
      }
    } else {
      for (int i = 0; i < lanes; ++i) check(entries[i][k], warp * 32 + lane_of[i]);
    }
  }
  if (k < longest) flush_diverged(warp, logs, k);
  for (Log<Entry>& log : logs) log.next = log.entries.data();
}

/// From entry `from` on lanes went different ways: what belongs to one instruction is found by its
/// line and by how many times the lane has been there.
template <class Entry>
void Worker::flush_diverged(int warp, std::array<Log<Entry>, 32>& logs, std::size_t from) {
  struct Item {
    std::uint64_t tag;
    std::uint32_t time;
    std::uint32_t lane;
    Entry entry;
  };
  std::vector<Item> items;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const Log<Entry>& log = logs[lane];
    std::map<std::uint64_t, std::uint32_t> times;
    for (std::size_t k = from; k < log.size(); ++k) {
      const Entry& entry = log.entries[k];
      if (entry.what() != Access::event)
        items.push_back({entry.tag(), times[entry.tag()]++, lane, entry});
    }
  }
  if (options_.checks) check_in_rounds(warp, logs, from);
  if (!options_.counters) return;
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.tag, a.time, a.lane) < std::tie(b.tag, b.time, b.lane);
  });
  for (std::size_t k = 0; k < items.size();) {
    const Item& leader = items[k];
    WarpAccess access;
    access.bytes = leader.entry.bytes();
    for (; k < items.size() && items[k].tag == leader.tag && items[k].time == leader.time; ++k) {
      access.lane[access.lanes] = static_cast<int>(items[k].lane);
      access.at[access.lanes++] = items[k].entry.at();
    }
    account(leader.entry, access, pattern<Entry>(access, leader.entry.site()));
  }
}

/// All lanes up to their first events, these events, all lanes up to their second ones, …: so what
/// lanes did before they arrived somewhere together has one time.
template <class Entry>
void Worker::check_in_rounds(int warp, std::array<Log<Entry>, 32>& logs, std::size_t from) {
  std::array<std::size_t, 32> next;
  next.fill(from);
  const auto check_next = [&](std::size_t lane) {
    check(logs[lane].entries[next[lane]++], warp * 32 + static_cast<int>(lane));
  };
  for (bool more = true; more;) {
    more = false;
    for (std::size_t lane = 0; lane < 32; ++lane)
      while (next[lane] < logs[lane].size() &&
             logs[lane].entries[next[lane]].what() != Access::event)
        check_next(lane);
    for (std::size_t lane = 0; lane < 32; ++lane)
      if (next[lane] < logs[lane].size()) {
        check_next(lane);
        more = true;
      }
  }
}

template <class Entry>
Worker::Pattern& Worker::pattern(const WarpAccess& access, SiteId site) {
  // Moving all lanes by whole words changes nothing for banks, by whole sectors nothing for
  // sectors.
  constexpr bool is_shared = std::is_same_v<Entry, SharedEntry>;
  const std::uint64_t phase = access.at[0] % (is_shared ? 4 : 32);
  const std::uint64_t key = std::uint64_t{site} << 16 | std::uint64_t{is_shared} << 15 |
                            static_cast<std::uint64_t>(access.bytes) << 8 | phase;
  Pattern& p = patterns_[(site ^ site >> 20 ^ (is_shared ? 0 : 128)) % patterns_.size()];
  std::uint32_t lanes = 0;
  std::array<std::uint32_t, 32> offset{};
  for (int i = 0; i < access.lanes; ++i) lanes |= 1u << access.lane[i];
  for (int i = 0; i < access.lanes; ++i)
    offset[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(access.at[i] - access.at[0]);
  if (p.key == key && p.lanes == lanes && p.offset == offset) return p;

  p.key = key;
  p.lanes = lanes;
  p.offset = offset;
  if constexpr (is_shared)
    p.wavefronts = shared_wavefronts(access);
  else
    p.sectors = global_sectors(access);
  p.places = 0;
  for (int i = 0; i < access.lanes; ++i) {
    const std::uint32_t* begin = p.place_offset.data();
    const std::uint32_t* end = begin + p.places;
    const std::size_t place = static_cast<std::size_t>(
        std::find(begin, end, offset[static_cast<std::size_t>(i)]) - begin);
    if (place == static_cast<std::size_t>(p.places)) {
      p.place_offset[place] = offset[static_cast<std::size_t>(i)];
      p.place_lanes[place] = 0;
      ++p.places;
    }
    p.place_lanes[place] |= 1u << access.lane[i];
  }
  return p;
}

Wavefronts Worker::wavefronts_of(const WarpAccess& access, SiteId site) {
  return pattern<SharedEntry>(access, site).wavefronts;
}

void Worker::account(const SharedEntry& kind, const WarpAccess&, const Pattern& pattern) {
  const std::uint64_t wavefronts = static_cast<std::uint64_t>(pattern.wavefronts.all);
  const std::uint64_t conflicts = static_cast<std::uint64_t>(pattern.wavefronts.conflicts);
  Counters& c = counters_;
  switch (kind.what()) {
    case Access::load:
      ++c.shared_load_requests;
      c.shared_load_wavefronts += wavefronts;
      c.shared_load_conflicts += conflicts;
      break;
    case Access::store:
      ++c.shared_store_requests;
      c.shared_store_wavefronts += wavefronts;
      c.shared_store_conflicts += conflicts;
      break;
    case Access::copy_begins:
      ++c.async_copy_requests;
      c.async_copy_wavefronts += wavefronts;
      c.async_copy_conflicts += conflicts;
      break;
    case Access::copy_lands:
    case Access::event:
      break;
  }
}

void Worker::account(const GlobalEntry& kind, const WarpAccess& access, const Pattern& pattern) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(access.lanes * access.bytes);
  const std::uint64_t sectors = static_cast<std::uint64_t>(pattern.sectors);
  Counters& c = counters_;
  switch (kind.what()) {
    case Access::load:
      ++c.global_load_requests;
      c.global_load_bytes += bytes;
      c.global_load_sectors += sectors;
      break;
    case Access::store:
      ++c.global_store_requests;
      c.global_store_bytes += bytes;
      c.global_store_sectors += sectors;
      break;
    default:
      c.async_copy_bytes += bytes;
      c.async_copy_sectors += sectors;
  }
}

void Worker::check(const SharedEntry& entry, int thread) {
  const std::uint32_t at = static_cast<std::uint32_t>(entry.at());
  RaceDetector::Result result;
  switch (entry.what()) {
    case Access::load:
      result = race_.load(thread / 32, 1u << thread % 32, at, entry.bytes(), entry.site());
      break;
    case Access::store:
      result = race_.store(thread, at, entry.bytes(), entry.site());
      break;
    case Access::copy_begins:
      result = race_.copy_begins(thread, at, entry.bytes(), entry.site());
      break;
    case Access::copy_lands:
      race_.copy_lands(thread, at, entry.bytes(), entry.site());
      break;
    case Access::event:
      apply(events_[at]);
      return;
  }
  if (result.fault == RaceDetector::Fault::none) return;
  static const char* const doing[] = {"read", "written", "written by a copy", ""};
  if ((result.fault == RaceDetector::Fault::race ||
       result.fault == RaceDetector::Fault::still_read) &&
      entry.what() != Access::load && !result.other.write)
    raced_.insert(result.byte);
  report_race(result, entry.site(), doing[static_cast<int>(entry.what())]);
}

/// A read of what nothing had written may yet turn out to be half of a race: the write came a little
/// later, with no barrier between, and was reported. Once the barrier is there, it can't any more.
/// (A later write that is ordered after the read doesn't excuse it: s[t] += x reads first.)
void Worker::settle_unwritten() {
  for (const auto& [result, site] : unwritten_) {
    if (raced_.count(result.byte) > 0 || !is_new_violation(Fault::uninitialised, site)) continue;
    Violation v;
    v.fault = Fault::uninitialised;
    v.thread = result.thread;
    v.site = site;
    v.address = name_of_shared(result.byte);
    v.detail = "read, but nothing in this block has written it";
    violate(std::move(v));
  }
  unwritten_.clear();
  raced_.clear();
}

void Worker::report_race(const RaceDetector::Result& result, SiteId site, const char* doing) {
  if (result.fault == RaceDetector::Fault::never_written) {
    unwritten_.emplace_back(result, site);
    return;
  }
  const SiteId other_site = result.other.site;
  const auto kind = [&] {
    switch (result.fault) {
      case RaceDetector::Fault::copy_in_flight:
      case RaceDetector::Fault::still_read:
        return Fault::copy_in_flight;
      case RaceDetector::Fault::not_waited:
        return Fault::not_waited;
      case RaceDetector::Fault::not_fenced:
        return Fault::not_fenced;
      default:
        return Fault::race;
    }
  };
  const Fault fault = kind();
  if (!is_new_violation(fault, site, other_site)) return;
  Violation v;
  v.fault = fault;
  v.thread = result.thread;
  v.site = site;
  v.address = name_of_shared(result.byte);
  v.other_site = other_site;
  v.other_thread = fault == Fault::not_waited ? -1 : result.other.thread;
  const char* const done = result.other.write ? "written" : "read";
  const std::string by =
      v.other_thread >= 0 ? fmt::format("thread {}", v.other_thread) : "another warp";
  const std::string there = name_of_site(other_site);
  if (result.fault == RaceDetector::Fault::still_read) {
    v.detail = fmt::format(
        "{}, but the store of {}, begun at {}, may still read it: no tma_store_wait comes between",
        doing,
        by,
        there);
  } else if (fault == Fault::copy_in_flight) {
    v.detail = fmt::format("{} while the copy of {} is under way, begun at {}", doing, by, there);
  } else if (fault == Fault::not_waited) {
    const MbarrierState& m = mbarriers_[static_cast<std::size_t>(result.other.thread)];
    v.detail = fmt::format(
        "{}, with no wait at {} for the copy begun at {}", doing, name_of_shared(m.at), there);
  } else if (fault == Fault::not_fenced) {
    v.detail = fmt::format(
        "{}; {} by {} at {}, with no fence_proxy_async between", doing, done, by, there);
  } else {
    const bool same_warp = v.other_thread >= 0 && v.other_thread / 32 == v.thread / 32;
    v.detail = fmt::format("{}; {} by {} at {}, with no {} between",
                           doing,
                           done,
                           by,
                           there,
                           same_warp ? "__syncwarp or barrier" : "barrier");
  }
  violate(std::move(v));
}

std::string Worker::name_of_element(std::uint32_t byte) const {
  for (const auto& part : parts_) {
    const Index offset = Index{byte} - Index{part->begin};
    if (offset >= 0 && offset < part->elements * part->element_bytes)
      return part->name_of(offset / part->element_bytes);
  }
  return {};
}

std::string Worker::name_of_shared(std::uint32_t byte) const {
  const std::string name = name_of_element(byte);
  const std::string where = fmt::format("byte {} of the block's shared memory", byte);
  return name.empty() ? where : fmt::format("{} ({})", name, where);
}

// ---------------------------------------------------------------------------------------------
// cp.async

void Worker::copy(std::uint32_t to, const void* from, int bytes, SiteId site) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.copies.push_back({to, from, bytes, site, thread.group});
  log_shared(site, Access::copy_begins, 4, to);
  if (options_.copies == Copies::early)
    land(thread.copies.back());
  else
    std::memset(shared_.data() + to, 0xff, 16);
}

void Worker::land(const PendingCopy& copy) {
  std::memset(shared_.data() + copy.to, 0, 16);
  if (copy.bytes > 0)
    std::memcpy(shared_.data() + copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
}

void Worker::commit() { ++threads_[static_cast<std::size_t>(current_)].group; }

/// Copies of all but the latest `groups_under_way` groups land.
void Worker::wait(int groups_under_way, SiteId) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  const auto landed = [&](const PendingCopy& copy) {
    return std::int64_t{copy.group} < std::int64_t{thread.group} - groups_under_way;
  };
  std::size_t kept = 0;
  for (const PendingCopy& copy : thread.copies) {
    if (!landed(copy)) {
      thread.copies[kept++] = copy;
      continue;
    }
    if (options_.copies == Copies::late) land(copy);
    log_shared(copy.site, Access::copy_lands, 4, copy.to);
  }
  thread.copies.resize(kept);
}

}  // namespace fa::simt
