#include "common/simt/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "common/simt/machine.hpp"

namespace fa::simt {

namespace {
constexpr std::uint64_t kEnoughViolations = 100000;
constexpr std::size_t kPrinted = 10;
thread_local Session* current_session = nullptr;
thread_local std::deque<Buffer> buffers;
}  // namespace

// ---------------------------------------------------------------------------------------------
const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::barrier:
      return "barrier not reached by all";
    case Fault::divergence:
      return "divergent warp operation";
    case Fault::global_bounds:
      return "global access out of bounds";
    case Fault::shared_bounds:
      return "shared access out of bounds";
    case Fault::misaligned:
      return "misaligned vector access";
    case Fault::uninitialised:
      return "read of shared memory that nothing wrote";
    case Fault::race:
      return "race on shared memory";
    case Fault::copy_in_flight:
      return "data of a copy touched before its wait";
    case Fault::shuffle:
      return "shuffle from a lane that takes no part";
    case Fault::copy_size:
      return "copy of an impossible size";
    case Fault::not_waited:
      return "data of a copy touched without waiting at its mbarrier";
    case Fault::not_fenced:
      return "copy without a fence_proxy_async before it";
    case Fault::copy_left:
      return "block ends with a copy under way";
    case Fault::mbarrier_init:
      return "mbarrier not initialised once, before its use";
    case Fault::mbarrier_arrivals:
      return "more arrivals than an mbarrier expects";
    case Fault::mbarrier_bytes:
      return "more bytes than an mbarrier expects";
    case Fault::mbarrier_wait:
      return "wait at an mbarrier that can't end";
  }
  return "?";
}

std::string Violation::text() const {
  return fmt::format("{}: {}{}\n      {}, block {}, thread {}: {}\n      {}",
                     name_of_site(site),
                     name_of(fault),
                     count > 1 ? fmt::format(" ({} times)", count) : "",
                     kernel,
                     block,
                     thread,
                     address,
                     detail);
}

std::string Report::text() const {
  if (ok()) return {};
  std::string lines = fmt::format("{} fault{} in {} of {} block{}, {} different:\n",
                                  violation_count,
                                  violation_count == 1 ? "" : "s",
                                  blocks_run,
                                  blocks_in_grid,
                                  blocks_in_grid == 1 ? "" : "s",
                                  violations.size());
  for (std::size_t i = 0; i < std::min(kPrinted, violations.size()); ++i)
    lines += fmt::format("{:>4}. {}\n", i + 1, violations[i].text());
  if (violations.size() > kPrinted)
    lines += fmt::format("      and {} more\n", violations.size() - kPrinted);
  if (stopped_early) lines += "      The remaining blocks were left out.\n";
  return lines;
}

// ---------------------------------------------------------------------------------------------
Session::Session(Options session_options)
    : options_(std::move(session_options)), outer_(current_session) {
  current_session = this;
}
Session::~Session() {
  current_session = outer_;
  if (!outer_) buffers.clear();
}
Session* Session::current() { return current_session; }

// ---------------------------------------------------------------------------------------------
namespace {
const Buffer* keep(Buffer buffer) {
  buffer.virtual_base =
      (buffers.size() + 1) << 40 | (reinterpret_cast<std::uintptr_t>(buffer.base) & 15);
  buffers.push_back(std::move(buffer));
  return &buffers.back();
}
}  // namespace

const Buffer* add_buffer(const char* name, const void* data, Index elements, Index element_bytes) {
  Buffer buffer;
  buffer.name = name;
  buffer.base = static_cast<unsigned char*>(const_cast<void*>(data));
  buffer.elements = elements;
  buffer.element_bytes = element_bytes;
  return keep(std::move(buffer));
}

const Buffer* add_buffer(const char* name,
                         const Tensor<const unsigned char>& shape,
                         Index element_bytes) {
  Buffer buffer;
  buffer.name = name;
  buffer.base = const_cast<unsigned char*>(shape.data);
  buffer.element_bytes = element_bytes;
  buffer.d = shape.d;
  buffer.axes = {Buffer::Axis{shape.batch_stride, shape.B, 0},
                 Buffer::Axis{shape.head_stride, shape.H, 1},
                 Buffer::Axis{shape.row_stride, shape.N, 2}};
  std::sort(buffer.axes.begin(), buffer.axes.end(), [](const auto& a, const auto& b) {
    return a.stride > b.stride;
  });
  // Strides of axes of length 1 mean nothing.
  Index row = shape.d;
  for (std::size_t i = 3; i-- > 0;) {
    Buffer::Axis& axis = buffer.axes[i];
    if (axis.size == 1) axis.stride = 0;
    if (axis.stride == 0) continue;
    buffer.gaps = buffer.gaps || axis.stride != row;
    row = axis.stride * axis.size;
  }
  if (shape.B * shape.H * shape.N * shape.d > 0) {
    buffer.elements = shape.d;
    for (const Buffer::Axis& axis : buffer.axes) buffer.elements += (axis.size - 1) * axis.stride;
  }
  return keep(std::move(buffer));
}

// ---------------------------------------------------------------------------------------------
namespace {
/// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
void require_launchable(dim3 grid, dim3 block, std::size_t shared_bytes, const Options& options) {
  const auto require = [](const char* what, std::uint64_t value, std::uint64_t most) {
    if (value < 1 || value > most)
      throw std::runtime_error(
          fmt::format("launching a kernel: {} = {}, must be from 1 to {}", what, value, most));
  };
  require("gridDim.x", grid.x, 0x7fffffff);
  require("gridDim.y", grid.y, 65535);
  require("gridDim.z", grid.z, 65535);
  require("blockDim.x", block.x, 1024);
  require("blockDim.y", block.y, 1024);
  require("blockDim.z", block.z, 64);
  require("threads of a block", std::uint64_t{block.x} * block.y * block.z, 1024);
  require(
      "bytes of shared memory", std::max<std::size_t>(1, shared_bytes), options.max_shared_bytes);
}
}  // namespace

void launch_grid(const KernelCall& kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  static const Options defaults;
  const Options& options = current_session ? current_session->options() : defaults;
  require_launchable(grid, block, shared_bytes, options);
  const std::int64_t in_grid = std::int64_t{grid.x} * grid.y * grid.z;
  std::vector<std::int64_t> chosen;
  for (const std::int64_t number : options.blocks)
    if (number < in_grid) chosen.push_back(number);
  const bool all = options.blocks.empty();
  const std::int64_t count = all ? in_grid : static_cast<std::int64_t>(chosen.size());

  Report report;
  report.launches = 1;
  report.blocks_in_grid = in_grid;
  if (options.per_block) report.per_block.resize(static_cast<std::size_t>(count));

  std::atomic<std::int64_t> next{0}, done{0};
  std::atomic<std::uint64_t> faults{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      Worker worker(kernel, grid, block, shared_bytes, options);
      std::uint64_t reported = 0;
      for (;;) {
        const std::int64_t i = next++;
        if (i >= count || faults > kEnoughViolations) break;
        worker.run_block(all ? i : chosen[static_cast<std::size_t>(i)]);
        if (options.per_block) report.per_block[static_cast<std::size_t>(i)] = worker.counters();
        faults += worker.violation_count - reported;
        reported = worker.violation_count;
        ++done;
        if (options.progress) options.progress(double(done) / double(count));
      }
      const std::lock_guard<std::mutex> lock(mutex);
      report.total += worker.total;
      report.violation_count += worker.violation_count;
      for (Violation& v : worker.violations) {
        const auto known =
            std::find_if(report.violations.begin(), report.violations.end(), [&](const auto& k) {
              return k.fault == v.fault && k.site == v.site && k.other_site == v.other_site;
            });
        if (known == report.violations.end()) {
          report.violations.push_back(std::move(v));
        } else {
          const std::uint64_t times = known->count + v.count;
          if (v.block < known->block) *known = std::move(v);
          known->count = times;
        }
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::int64_t workers =
      options.workers > 0 ? options.workers : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, count);
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < workers; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (!current_session) buffers.clear();
  if (failure) std::rethrow_exception(failure);

  std::stable_sort(report.violations.begin(),
                   report.violations.end(),
                   [](const auto& a, const auto& b) { return a.block < b.block; });
  report.blocks_run = done;
  report.stopped_early = done < count;
  if (!current_session) {
    if (!report.ok()) throw KernelFault(report.text());
    return;
  }
  Report& whole = current_session->report();
  whole.launches += report.launches;
  whole.blocks_run += report.blocks_run;
  whole.blocks_in_grid += report.blocks_in_grid;
  whole.violation_count += report.violation_count;
  whole.stopped_early = whole.stopped_early || report.stopped_early;
  whole.total += report.total;
  whole.per_block.insert(whole.per_block.end(), report.per_block.begin(), report.per_block.end());
  whole.violations.insert(whole.violations.end(),
                          std::make_move_iterator(report.violations.begin()),
                          std::make_move_iterator(report.violations.end()));
}

}  // namespace fa::simt
