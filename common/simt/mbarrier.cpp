#include "common/simt/mbarrier.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/simt/machine.hpp"

namespace fa::simt {

namespace {
/// Of arrivals and of bytes (PTX ISA, "Contents of the mbarrier object").
constexpr int kMost = (1 << 20) - 1;

std::string plural(std::int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::uint32_t swizzled(std::uint32_t at) { return at ^ (at >> 7 & 7) << 4; }
}  // namespace

void TileCopy::land(unsigned char* shared) const {
  for (int page = 0; page < pages; ++page)
    for (int r = 0; r < rows; ++r) {
      const Index i = row + r;
      const unsigned char* source =
          from && 0 <= i && i < N ? from + i * row_bytes + page * 128 : nullptr;
      for (std::uint32_t piece = 0; piece < 128; piece += 16) {
        const std::uint32_t at = to + static_cast<std::uint32_t>(page * rows + r) * 128 + piece;
        unsigned char* target = shared + swizzled(at);
        if (source)
          std::memcpy(target, source + piece, 16);
        else
          std::memset(target, 0, 16);
      }
    }
}

void PageStore::write(const unsigned char* shared) const {
  for (int r = 0; r < kept(); ++r)
    for (std::uint32_t piece = 0; piece < 128; piece += 16) {
      const std::uint32_t at = from + static_cast<std::uint32_t>(r) * 128 + piece;
      std::memcpy(to + (row + r) * row_bytes + piece, shared + swizzled(at), 16);
    }
}

void MbarrierState::next_phase() {
  ++phase;
  missing = arrivals;
  expected = under_way = 0;
  copies.clear();
}

MbarrierState::Arrivals& MbarrierState::arrivals_in(std::uint32_t of_phase) {
  Arrivals& its = arrivals_of[of_phase % 2];
  if (its.phase != of_phase) its = {of_phase, false, {}};
  return its;
}

Order::Row& MbarrierState::table(std::uint32_t of_phase) {
  Order::Row& row = known[of_phase % 2];
  if (known_phase[of_phase % 2] != of_phase) row.clear();
  known_phase[of_phase % 2] = of_phase;
  return row;
}

// ---------------------------------------------------------------------------------------------
// What the running thread does

MbarrierState* Worker::mbarrier_at(std::uint32_t at) {
  for (MbarrierState& m : mbarriers_)
    if (m.at == at) return &m;
  return nullptr;
}

/// As mbarrier_at, for uses: one that was never made is reported.
MbarrierState* Worker::made_mbarrier(std::uint32_t at, SiteId site) {
  MbarrierState* m = mbarrier_at(at);
  if (!m && is_new_violation(Fault::mbarrier_init, site))
    violate(Fault::mbarrier_init, site, name_of_shared(at), "used, but nothing has initialised it");
  return m;
}

void Worker::log_event(Event event) {
  if (!options_.checks) return;
  race_.begin_by_thread();
  log_shared(event.site, Access::event, 0, static_cast<std::uint32_t>(events_.size()));
  event.thread = current_;
  events_.push_back(event);
}

void Worker::init_mbarrier(std::uint32_t at, int arrivals, SiteId site) {
  MbarrierState* m = mbarrier_at(at);
  if (m || arrivals < 1 || arrivals > kMost) {
    violate(Fault::mbarrier_init,
            site,
            name_of_shared(at),
            m ? "initialised, but it is a barrier already"
              : fmt::format("for {} arrivals a phase: from 1 to {} are possible", arrivals, kMost));
    if (m) return;
  }
  if (mbarriers_.size() == Order::kMbarriers)
    throw std::runtime_error(
        fmt::format("the emulator has {} mbarriers a block", Order::kMbarriers));
  MbarrierState made;
  made.at = at;
  made.number = static_cast<int>(mbarriers_.size());
  made.arrivals = made.missing = std::max(1, arrivals);
  made.maker = current_;
  made.made_at = site;
  mbarriers_.push_back(std::move(made));
  log_event({Event::init, site, at});
}

void Worker::arrive(std::uint32_t at, int bytes, SiteId site) {
  MbarrierState* m = made_mbarrier(at, site);
  if (!m) return;
  ++counters_.mbarrier_arrivals;
  if (m->missing == 0) {
    violate(Fault::mbarrier_arrivals,
            site,
            name_of_shared(at),
            fmt::format("phase {} expects {}: they have come, and its bytes are under way",
                        m->phase,
                        plural(m->arrivals, "arrival")));
    return;
  }
  if (bytes < 0 || bytes > kMost) {
    violate(Fault::mbarrier_bytes,
            site,
            name_of_shared(at),
            fmt::format("{} bytes announced: from 0 to {} are possible", bytes, kMost));
    bytes = 0;
  }
  --m->missing;
  m->expected += bytes;
  check_bytes(*m, site);
  const bool ends = m->is_full() && m->copies.empty();
  log_event({Event::arrive, site, at, m->phase, ends});
  if (ends) begin_phase(*m);
}

void Worker::copy_tile(TileCopy copy, std::uint32_t done) {
  MbarrierState* m = made_mbarrier(done, copy.site);
  if (!m) return;
  copy.thread = current_;
  ++counters_.tma_copies;
  if (copy.from)
    for (Index i = std::max<Index>(0, copy.row); i < std::min(copy.N, copy.row + copy.rows); ++i) {
      const std::uint64_t first = copy.address + static_cast<std::uint64_t>(i * copy.row_bytes);
      const std::uint64_t bytes = static_cast<std::uint64_t>(copy.pages) * 128;
      counters_.tma_bytes += bytes;
      counters_.tma_sectors += (first + bytes - 1) / 32 - first / 32 + 1;
    }
  if (copy.fits) {
    if (options_.copies == Copies::early)
      copy.land(shared_.data());
    else
      std::memset(shared_.data() + copy.to, 0xff, static_cast<std::size_t>(copy.bytes()));
    log_event({Event::copy, copy.site, done, m->phase, false, copy.to, copy.bytes()});
  }
  m->under_way += copy.bytes();
  m->copies.push_back(copy);
  check_bytes(*m, copy.site);
}

void Worker::store_page(const PageStore& store) {
  ++counters_.tma_stores;
  if (store.below_0) {
    violate(Fault::global_bounds,
            store.site,
            "the tensor that TMA stores to",
            fmt::format("row {}, or its page, head or item: none may be below 0", store.row));
    return;
  }
  for (int r = 0; r < store.kept(); ++r) {
    const std::uint64_t first =
        store.address + static_cast<std::uint64_t>((store.row + r) * store.row_bytes);
    counters_.tma_store_bytes += 128;
    counters_.tma_store_sectors += (first + 127) / 32 - first / 32 + 1;
  }
  if (!store.fits) return;
  threads_[static_cast<std::size_t>(current_)].stores.push_back(store);
  if (options_.copies == Copies::early) store.write(shared_.data());
  Event event{Event::store, store.site};
  event.to = store.from;
  event.bytes = store.bytes();
  event.kept = store.kept() * 128;
  log_event(event);
}

/// All stores of the thread read their pages: at the latest now.
void Worker::wait_for_stores(SiteId site) {
  std::vector<PageStore>& stores = threads_[static_cast<std::size_t>(current_)].stores;
  if (options_.copies == Copies::late)
    for (const PageStore& store : stores) store.write(shared_.data());
  stores.clear();
  log_event({Event::stores_read, site});
}

/// Once all arrivals have come, no more bytes can be announced.
void Worker::check_bytes(MbarrierState& m, SiteId site) {
  if (m.missing > 0 || m.under_way <= m.expected) return;
  violate(Fault::mbarrier_bytes,
          site,
          name_of_shared(m.at),
          fmt::format(
              "phase {} expects {} bytes, and {} are under way", m.phase, m.expected, m.under_way));
  m.expected = m.under_way;  // so that this is the only report
}

int Worker::add_one(std::uint32_t at, SiteId site) {
  ++counters_.shared_atomics;
  int before;
  std::memcpy(&before, shared_.data() + at, sizeof before);
  const int after = static_cast<int>(static_cast<unsigned>(before) + 1);
  std::memcpy(shared_.data() + at, &after, sizeof after);
  log_event({Event::atomic, site, at});
  return before;
}

void Worker::fence_proxy(SiteId site) { log_event({Event::fence, site}); }

// ---------------------------------------------------------------------------------------------
// Waiting

namespace {
void pass_mbarrier(Worker& worker, int warp, std::uint32_t mask, void* const*) {
  worker.pass_mbarrier(warp, mask);
}
}  // namespace

void Worker::wait_at_mbarrier(std::uint32_t at, int parity, SiteId site) {
  const MbarrierState* m = made_mbarrier(at, site);
  if (!m) return;
  if (parity != 0 && parity != 1)
    violate(Fault::mbarrier_wait,
            site,
            name_of_shared(at),
            fmt::format("for parity {}: there are 0 and 1", parity));
  Operation wait{"mbarrier_wait", &simt::pass_mbarrier, 0, site, nullptr};
  wait.key = Operation::mbarrier_key(at, static_cast<std::uint32_t>(parity));
  if (wait.key != Operation::mbarrier_key(at, m->phase)) wait.note_over(m->phase - 1);
  meet(wait);
}

/// May those that wait so go on?
bool Worker::is_phase_over(const Operation& wait) {
  if (wait.is_over()) return true;
  MbarrierState& m = *mbarrier_at(wait.mbarrier());
  if (options_.copies == Copies::late || !m.is_full()) return false;
  end_phase(m);  // this notes that the wait is over
  return true;
}

/// Those that wait for the present phase go on, even if the next one is over before they run.
void Worker::begin_phase(MbarrierState& m) {
  const std::uint32_t key = Operation::mbarrier_key(m.at, m.phase);
  for (Thread& thread : threads_)
    if (thread.state == State::waiting && thread.operation.key == key)
      thread.operation.note_over(m.phase);
  m.next_phase();
}

/// Nobody can run: then the copies land that the first waiting thread needs. Says whether any did.
bool Worker::land_tiles() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::waiting || !thread.operation.key) continue;
    MbarrierState& m = *mbarrier_at(thread.operation.mbarrier());
    if (!m.is_full()) continue;
    end_phase(m);
    return true;
  }
  return false;
}

/// Its copies land, and it is over.
void Worker::end_phase(MbarrierState& m) {
  for (const TileCopy& copy : m.copies) {
    if (!copy.fits) continue;
    if (options_.copies == Copies::late) copy.land(shared_.data());
    if (options_.checks) race_.tile_lands(copy.thread, copy.to, copy.bytes(), copy.site, m.number);
  }
  if (options_.checks) m.ended = race_.order().end_phase(m.number, m.table(m.phase));
  begin_phase(m);
}

/// Lanes of a warp that waited go on.
void Worker::pass_mbarrier(int warp, std::uint32_t lanes) {
  ++counters_.mbarrier_waits;
  if (!options_.checks) return;
  for (; lanes; lanes &= lanes - 1) {
    const int t = warp * 32 + __builtin_ctz(lanes);
    const Operation& wait = threads_[static_cast<std::size_t>(t)].operation;
    MbarrierState& m = *mbarrier_at(wait.mbarrier());
    if (knows_of_init(m, t, wait.site) && m.known_phase[wait.phase % 2] == wait.phase)
      race_.order().acquire(t, m.known[wait.phase % 2]);
  }
}

/// "phase 2 (parity 0) lacks 1 of 1 arrival, and 8192 of the 16384 bytes expected so far"
std::string Worker::what_is_missing(const Operation& wait) {
  const MbarrierState& m = *mbarrier_at(wait.mbarrier());
  std::string text = fmt::format("phase {} (parity {}) lacks {} of {}",
                                 m.phase,
                                 m.phase % 2,
                                 m.missing,
                                 plural(m.arrivals, "arrival"));
  if (m.expected > 0 || m.under_way > 0)
    text += fmt::format(", and {} of the {} bytes expected so far",
                        std::max<std::int64_t>(0, m.expected - m.under_way),
                        m.expected);
  return text;
}

/// The block's threads have returned: have its copies landed?
void Worker::check_copies_landed() {
  for (const MbarrierState& m : mbarriers_)
    for (const TileCopy& copy : m.copies) {
      if (!is_new_violation(Fault::copy_left, copy.site)) continue;
      Violation v;
      v.fault = Fault::copy_left;
      v.thread = copy.thread;
      v.site = copy.site;
      v.address = name_of_shared(copy.to);
      v.detail = fmt::format("nobody has waited for its {} bytes at {}, in phase {}",
                             copy.bytes(),
                             name_of_shared(m.at),
                             m.phase);
      violate(std::move(v));
    }
}

/// The block's threads have returned: has each waited for its stores? They read now, if not before;
/// on hardware the memory may be another block's by then.
void Worker::check_stores_read() {
  for (std::size_t t = 0; t < threads_.size(); ++t)
    for (const PageStore& store : threads_[t].stores) {
      if (options_.copies == Copies::late) store.write(shared_.data());
      if (!is_new_violation(Fault::copy_left, store.site)) continue;
      Violation v;
      v.fault = Fault::copy_left;
      v.thread = static_cast<int>(t);
      v.site = store.site;
      v.address = name_of_shared(store.from);
      v.detail = fmt::format("no tma_store_wait after it: its {} bytes may not be read yet",
                             store.bytes());
      violate(std::move(v));
    }
}

// ---------------------------------------------------------------------------------------------
// Order

/// Does this use of an mbarrier come after its making? Reports it if not.
bool Worker::knows_of_init(const MbarrierState& m, int thread, SiteId site) {
  if (race_.order().known(thread, m.maker, m.made)) return true;
  if (!is_new_violation(Fault::mbarrier_init, site, m.made_at)) return false;
  Violation v;
  v.fault = Fault::mbarrier_init;
  v.thread = thread;
  v.site = site;
  v.address = name_of_shared(m.at);
  v.other_site = m.made_at;
  v.other_thread = m.maker;
  v.detail = fmt::format("used; initialised by thread {} at {}, with no barrier between",
                         m.maker,
                         name_of_site(m.made_at));
  violate(std::move(v));
  return false;
}

/// An arrival or a copy is one of the present phase for sure only if its thread knows that the phase
/// before is over: on hardware it may count for that one. It knows by a wait, its own or another's that
/// it has learnt of; or, where no copy took part, if it has learnt of all arrivals.
void Worker::check_phase(MbarrierState& m, const Event& event, Fault fault) {
  const Order& order = race_.order();
  if (event.phase == 0 || order.knows_phase(event.thread, m.number, m.ended)) return;
  const MbarrierState::Arrivals& before = m.arrivals_in(event.phase - 1);
  if (!before.copies && before.came.size() == static_cast<std::size_t>(m.arrivals) &&
      std::all_of(before.came.begin(), before.came.end(), [&](const auto& arrival) {
        return order.known(event.thread, arrival.first, arrival.second);
      }))
    return;
  if (!is_new_violation(fault, event.site)) return;
  Violation v;
  v.fault = fault;
  v.thread = event.thread;
  v.site = event.site;
  v.address = name_of_shared(m.at);
  v.detail =
      fmt::format("phase {} has all that it expects, but this thread can't know that it is over",
                  event.phase - 1);
  violate(std::move(v));
}

void Worker::apply(const Event& event) {
  Order& order = race_.order();
  MbarrierState* m = mbarrier_at(event.at);
  RaceDetector::Result result;
  switch (event.kind) {
    case Event::init:
      m->made = order.now();
      break;
    case Event::arrive: {
      if (knows_of_init(*m, event.thread, event.site))
        check_phase(*m, event, Fault::mbarrier_arrivals);
      Order::Row& table = m->table(event.phase);
      order.release(event.thread, table);
      m->arrivals_in(event.phase).came.emplace_back(event.thread, order.now() - 1);
      if (event.ends) m->ended = order.end_phase(m->number, table);
      if (event.ends && m->arrivals == 1) order.acquire(event.thread, table);  // no one else's
      break;
    }
    case Event::atomic: {
      Order::Row& table = counters_known_[event.at];
      if (race_.is_atomic(event.at))
        order.acquire(event.thread, table);
      else
        table.clear();
      result = race_.atomic(event.thread, event.at, event.site);
      order.release(event.thread, table);
      break;
    }
    case Event::fence:
      order.fence_proxy(event.thread);
      break;
    case Event::copy:
      if (knows_of_init(*m, event.thread, event.site))
        check_phase(*m, event, Fault::mbarrier_bytes);
      m->arrivals_in(event.phase).copies = true;
      result = race_.tile_begins(event.thread, event.to, event.bytes, event.site);
      break;
    case Event::store:
      result = race_.store_begins(event.thread, event.to, event.bytes, event.kept, event.site);
      break;
    case Event::stores_read:
      race_.stores_read(event.thread);
  }
  if (result.fault == RaceDetector::Fault::none) return;
  report_race(result,
              event.site,
              event.kind == Event::copy    ? "written by a copy"
              : event.kind == Event::store ? "read by a store"
                                           : "added to in one step");
}

}  // namespace fa::simt
