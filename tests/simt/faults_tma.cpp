// What the emulator finds in kernels with mbarriers, counters and copies by TMA: as faults.cpp, with
// copies that land late and with copies that land early.
#include "tests/simt/faults.hpp"

namespace fa::test {
namespace {

/// One block of 128 threads: a head of 64 rows of 64 numbers, 1, 2, …, and an array of floats. Kernels
/// that store by TMA get a head O of 40 rows, too, that is all −1.
template <auto kernel>
simt::Report run_tma(const simt::Options& options, std::vector<float16>* stored = nullptr) {
  std::vector<float16> x(64 * 64);
  for (std::size_t e = 0; e < x.size(); ++e) x[e] = float16(static_cast<float>(e % 2000 + 1));
  DeviceArray<float16> device_x(x);
  DeviceArray<float> out(std::vector<float>(128, -1.0f));
  const Tensor<const float16> X{device_x.data(), 1, 1, 64, 64, 0, 0, 64};
  if constexpr (std::is_invocable_v<decltype(kernel), TileMap<const float16>, Global<float>>) {
    return run<kernel>(1, 128, 8192, options, tile_map("X", X, 16, 64), argument("out", out));
  } else {
    DeviceArray<float16> device_o(std::vector<float16>(40 * 64, float16(-1.0f)));
    const Tensor<float16> O{device_o.data(), 1, 1, 40, 64, 0, 0, 64};
    const simt::Report report = run<kernel>(1,
                                            128,
                                            8192,
                                            options,
                                            tile_map("X", X, 16, 64),
                                            tile_map("O", O, 16, 64),
                                            argument("out", out));
    if (stored) *stored = device_o.values();
    return report;
  }
}

constexpr int kTile = 16 * 64 * 2;  // bytes of a box

template <class F>
void late_and_early(F check) {
  for (const simt::Copies copies : {simt::Copies::late, simt::Copies::early}) {
    simt::Options options;
    options.copies = copies;
    check(options);
  }
}

template <auto kernel>
void finds(simt::Fault fault, const std::string& mark) {
  late_and_early(
      [&](const simt::Options& options) { check_finds(run_tma<kernel>(options), fault, mark); });
}
template <auto kernel>
void finds_race(const std::string& one, const std::string& other) {
  late_and_early([&](const simt::Options& options) {
    check_finds_race(run_tma<kernel>(options), one, other);
  });
}
template <auto kernel>
void passes() {
  late_and_early([](const simt::Options& options) { check_passes(run_tma<kernel>(options)); });
}
template <auto kernel>
void says(const std::string& words) {
  late_and_early([&](const simt::Options& options) {
    const std::string text = run_tma<kernel>(options).text();
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  });
}

/// What these kernels have in shared memory: two tiles, three mbarriers, two counters, some floats.
struct Parts {
  SharedTile<float16, 64> tile;  // 2 · 16 rows
  Shared<Mbarrier> full, other;
  Shared<int> counter;
  Shared<float> s;

  Parts() {
    SharedMemory memory = shared_memory();
    tile = memory.tile<float16, 64>("tile", 2 * 16);
    full = memory.array<Mbarrier>("full", 2);
    other = memory.array<Mbarrier>("other", 1);
    counter = memory.array<int>("counter", 2);
    s = memory.array<float>("s", 128);
  }
};

/// The same, with mbarriers of `arrivals` a phase and counters at 0.
Parts parts_of(int arrivals) {
  const Parts p;
  if (threadIdx.x == 0) {
    mbarrier_init(p.full, arrivals);
    mbarrier_init(p.full + 1, arrivals);
    p.counter[0] = 0;
    p.counter[1] = 0;
  }
  __syncthreads();
  return p;
}

using Map = TileMap<const float16>;
using Out = Global<float>;

float sum_of_tile(const Parts& p, int tile = 0) {
  float sum = 0;
  for (int x = 0; x < 64; ++x) sum += p.tile[tile * 16 + threadIdx.x % 16][x];
  return sum;
}

// ---------------------------------------------------------------------------------------------
// mbarriers: made, once, before they are used

__global__ void arrive_uninitialised(Map, Out) {
  const Parts p;
  if (threadIdx.x == 0) mbarrier_arrive(p.full);  //! arrive uninitialised
}
__global__ void wait_uninitialised(Map, Out) {
  const Parts p;
  mbarrier_wait(p.full + 1, 0);  //! wait uninitialised
}
__global__ void initialised_by_another(Map, Out) {
  const Parts p;
  if (threadIdx.x == 0) mbarrier_init(p.full, 1);
  if (threadIdx.x == 64) mbarrier_init(p.full + 1, 1);
  if (threadIdx.x == 32) mbarrier_arrive(p.full);
  if (threadIdx.x == 96) mbarrier_arrive(p.full + 1);
}
__global__ void initialised_twice(Map, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) mbarrier_init(p.full, 1);  //! initialised twice
}
__global__ void of_no_arrivals(Map, Out) {
  const Parts p;
  if (threadIdx.x == 0) mbarrier_init(p.full, 0);  //! of no arrivals
}
__global__ void initialised_and_used(Map, Out) {
  const Parts p;
  if (threadIdx.x == 0) {
    mbarrier_init(p.full, 1);
    mbarrier_arrive(p.full);
    mbarrier_wait(p.full, 0);
  }
  __syncthreads();
  mbarrier_wait(p.full, 0);
}

TEST_CASE("an mbarrier that isn't initialised once and before its use is found") {
  finds<arrive_uninitialised>(simt::Fault::mbarrier_init, "arrive uninitialised");
  finds<wait_uninitialised>(simt::Fault::mbarrier_init, "wait uninitialised");
  finds<initialised_twice>(simt::Fault::mbarrier_init, "initialised twice");
  finds<of_no_arrivals>(simt::Fault::mbarrier_init, "of no arrivals");
  // Whichever warp runs first, one of the two barriers is used before or after its making.
  late_and_early([](const simt::Options& options) {
    const simt::Report report = run_tma<initialised_by_another>(options);
    INFO(report.text());
    CHECK(report.violations.size() == 2);
    for (const simt::Violation& v : report.violations) CHECK(v.fault == simt::Fault::mbarrier_init);
  });
  passes<initialised_and_used>();
}

// ---------------------------------------------------------------------------------------------
// Phases

__global__ void too_few_arrivals(Map, Out) {
  const Parts p = parts_of(3);
  if (threadIdx.x < 2) mbarrier_arrive(p.full + 1);
  mbarrier_wait(p.full + 1, 0);  //! too few arrivals
}
__global__ void too_few_bytes(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, 2 * kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  if (threadIdx.x < 32) mbarrier_wait(p.full, 0);  //! too few bytes
  __syncthreads();
}
__global__ void waited_for_a_phase_too_many(Map, Out) {
  const Parts p = parts_of(1);
  for (int k = 0; k < 3; ++k) {
    if (threadIdx.x == 0 && k < 2) mbarrier_arrive(p.full);
    mbarrier_wait(p.full, k % 2);  //! waited for a phase too many
    __syncthreads();
  }
}
__global__ void of_strange_parity(Map, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) mbarrier_arrive(p.full);
  mbarrier_wait(p.full, 2);  //! of strange parity
}
// Lane 7 of each warp goes on to the block's barrier.
__global__ void waited_together_by_some(Map, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) mbarrier_arrive(p.full);
  if (threadIdx.x % 32 != 7) mbarrier_wait_together(p.full, 0);  //! waited together by some
  __syncthreads();
}
__global__ void waited_together_in_vain(Map, Out) {
  const Parts p = parts_of(2);
  if (threadIdx.x == 0) mbarrier_arrive(p.full);
  mbarrier_wait_together(p.full, 0);  //! waited together in vain
}
__global__ void in_phases(Map, Out) {
  const Parts p = parts_of(4);
  for (int k = 0; k < 5; ++k) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(p.full);
    mbarrier_wait(p.full, k % 2);
  }
  mbarrier_wait(p.full + 1, 1);  // the phase before the first is over
}

TEST_CASE("a wait at an mbarrier that can't end is found") {
  finds<too_few_arrivals>(simt::Fault::mbarrier_wait, "too few arrivals");
  says<too_few_arrivals>("full[1] (byte 4104 of the block's shared memory)");
  says<too_few_arrivals>(
      "phase 0 (parity 0) lacks 1 of 3 arrivals: threads 0-127 at mbarrier_wait");
  says<too_few_arrivals>(") for full[1]");
  finds<too_few_bytes>(simt::Fault::mbarrier_wait, "too few bytes");
  says<too_few_bytes>(
      "phase 0 (parity 0) lacks 0 of 1 arrival, and 2048 of the 4096 bytes expected so far: "
      "threads 0-31 at mbarrier_wait");
  finds<waited_for_a_phase_too_many>(simt::Fault::mbarrier_wait, "waited for a phase too many");
  says<waited_for_a_phase_too_many>("phase 2 (parity 0) lacks 1 of 1 arrival:");
  finds<of_strange_parity>(simt::Fault::mbarrier_wait, "of strange parity");
  finds<waited_together_by_some>(simt::Fault::divergence, "waited together by some");
  says<waited_together_by_some>("mbarrier_wait_together");
  finds<waited_together_in_vain>(simt::Fault::mbarrier_wait, "waited together in vain");
  passes<in_phases>();
}

__global__ void all_arrive(Map, Out) {
  const Parts p = parts_of(4);
  mbarrier_arrive(p.full);  //! all arrive
}
__global__ void second_arrival(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x < 2) mbarrier_arrive_expect(p.full, kTile / 2);  //! second arrival
  __syncthreads();
  if (threadIdx.x == 0) tma_load(p.tile, K, 0, 0, 0, p.full);
  __syncthreads();
}
__global__ void next_phase_too_soon(Map, Out) {
  const Parts p = parts_of(2);
  if (threadIdx.x == 0) mbarrier_arrive(p.full);
  if (threadIdx.x == 96) mbarrier_arrive(p.full);
  if (threadIdx.x == 32) mbarrier_arrive(p.full);  //! next phase too soon
  if (threadIdx.x == 64) mbarrier_arrive(p.full);
}
__global__ void second_copy(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    for (int k = 0; k < 2; ++k) tma_load(p.tile + 16 * k, K, 0, 0, 0, p.full);  //! second copy
  }
  mbarrier_wait(p.full, 0);
}
// The second copy is issued by a thread that has to know that the first phase is over.
template <bool waits>
__global__ void copied_in_the_next_phase(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 64) tma_load(p.tile, K, 0, 0, 0, p.full);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    mbarrier_wait(p.full, 0);
  }
  __syncwarp();
  if (waits) __syncthreads();
  if (threadIdx.x == 96) tma_load(p.tile + 16, K, 0, 0, 0, p.full);  //! copied in the next phase
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_arrive_expect(p.full, kTile);
  mbarrier_wait(p.full, 1);
}
__global__ void too_little_expected(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    tma_load(p.tile, K, 0, 0, 0, p.full);
    mbarrier_arrive_expect(p.full, kTile - 128);  //! too little expected
  }
  mbarrier_wait(p.full, 0);
}
__global__ void expected_in_parts(Map K, Out) {
  const Parts p = parts_of(2);
  if (threadIdx.x == 0) {
    tma_load(p.tile, K, 0, 0, 0, p.full);
    mbarrier_arrive_expect(p.full, kTile);
  }
  if (threadIdx.x == 64) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile + 16, K, 16, 0, 0, p.full);
  }
  mbarrier_wait(p.full, 0);
}

TEST_CASE("more arrivals or bytes than an mbarrier expects are found") {
  finds<all_arrive>(simt::Fault::mbarrier_arrivals, "all arrive");
  finds<second_arrival>(simt::Fault::mbarrier_arrivals, "second arrival");
  late_and_early([](const simt::Options& options) {
    const simt::Report report = run_tma<next_phase_too_soon>(options);
    INFO(report.text());
    CHECK(report.violation_count == 2);
    CHECK(report.violations[0].fault == simt::Fault::mbarrier_arrivals);
  });
  finds<second_copy>(simt::Fault::mbarrier_bytes, "second copy");
  late_and_early([](const simt::Options& options) {
    // Which phase it is in depends on the order, and so does which line is named.
    CHECK(!run_tma<copied_in_the_next_phase<false>>(options).ok());
  });
  passes<copied_in_the_next_phase<true>>();
  finds<too_little_expected>(simt::Fault::mbarrier_bytes, "too little expected");
  says<too_little_expected>("phase 0 expects 1920 bytes, and 2048 are under way");
  passes<expected_in_parts>();
}

// ---------------------------------------------------------------------------------------------
// Where copies go

__global__ void misaligned_tile(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile + 4, K, 0, 0, 0, p.full);  //! misaligned tile
  }
  mbarrier_wait(p.full, 0);
}
__global__ void tile_without_room(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile + 24, K, 0, 0, 0, p.full);  //! tile without room
  }
  mbarrier_wait(p.full, 0);
}
__global__ void copied_over_a_copy(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0)
    for (int k = 0; k < 2; ++k) {
      mbarrier_arrive_expect(p.full + k, kTile);
      tma_load(p.tile + 8 * k, K, 0, 0, 0, p.full + k);  //! copied over a copy
    }
  mbarrier_wait(p.full, 0);
  mbarrier_wait(p.full + 1, 0);
}
__global__ void left_under_way(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    mbarrier_arrive_expect(p.full + 1, kTile);
    tma_load(p.tile + 16, K, 0, 0, 0, p.full + 1);  //! left under way
  }
  mbarrier_wait(p.full, 0);
}

TEST_CASE("copies to places that can't take them, and those nobody waits for, are found") {
  finds<misaligned_tile>(simt::Fault::misaligned, "misaligned tile");
  finds<tile_without_room>(simt::Fault::shared_bounds, "tile without room");
  finds<copied_over_a_copy>(simt::Fault::copy_in_flight, "copied over a copy");
  finds<left_under_way>(simt::Fault::copy_left, "left under way");
  says<left_under_way>("nobody has waited for its 2048 bytes at full[1]");
}

// ---------------------------------------------------------------------------------------------
// Waiting for data

__global__ void written_during_a_copy(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    p.tile[1][1] = float16(1.0f);  //! written during a copy by TMA
  }
  mbarrier_wait(p.full, 0);
}
__global__ void tile_not_waited_for(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  __syncthreads();
  out[threadIdx.x] = p.tile[threadIdx.x % 16][0];  //! tile not waited for
  mbarrier_wait(p.full, 0);
}
__global__ void waited_for_the_other_parity(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  __syncthreads();
  mbarrier_wait(p.full, 1);
  out[threadIdx.x] = p.tile[threadIdx.x % 16][0];  //! waited for the other parity
  mbarrier_wait(p.full, 0);
}
__global__ void waited_at_the_other(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0)
    for (int k = 0; k < 2; ++k) {
      mbarrier_arrive_expect(p.full + k, kTile);
      tma_load(p.tile + 16 * k, K, 16 * k, 0, 0, p.full + k);
    }
  if (threadIdx.x < 32) mbarrier_wait(p.full, 0);
  __syncthreads();
  mbarrier_wait(p.full, 0);
  out[threadIdx.x] = p.tile[threadIdx.x % 16 + 16][0];  //! waited at the other
  mbarrier_wait(p.full + 1, 0);
}
__global__ void one_lane_waited(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) mbarrier_wait(p.full, 0);
  out[threadIdx.x] = __shfl_sync(kAllLanes, 1.0f, 0);  // moves values, orders no memory
  out[threadIdx.x] = p.tile[threadIdx.x % 16][0];      //! one lane waited
}
__global__ void one_lane_waited_for_all(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) mbarrier_wait(p.full, 0);
  __syncwarp();
  out[threadIdx.x] = sum_of_tile(p);
}
__global__ void one_thread_waited_for_all(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    mbarrier_wait(p.full, 0);
  }
  __syncthreads();
  out[threadIdx.x] = sum_of_tile(p);
}

// Each lane knows of the phase by its own wait; the vote moves a value, and orders nothing.
template <bool reads_others>
__global__ void waited_together(Map K, Out out) {
  const Parts p = parts_of(1);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  if (threadIdx.x < 32) p.s[lane] = 1;  //! written before a vote
  mbarrier_wait_together(p.full, 0);
  out[threadIdx.x] = sum_of_tile(p);
  if (reads_others && threadIdx.x < 32) out[lane] = p.s[31 - lane];  //! read after a vote
}

TEST_CASE("a tile that is read without waiting for it at its mbarrier is found") {
  finds<written_during_a_copy>(simt::Fault::copy_in_flight, "written during a copy by TMA");
  finds<tile_not_waited_for>(simt::Fault::copy_in_flight, "tile not waited for");
  finds<waited_for_the_other_parity>(simt::Fault::copy_in_flight, "waited for the other parity");
  finds<waited_at_the_other>(simt::Fault::copy_in_flight, "waited at the other");
  finds<one_lane_waited>(simt::Fault::not_waited, "one lane waited");
  says<one_lane_waited>(
      "read, with no wait at full[0] (byte 4096 of the block's shared memory) for");
  passes<one_lane_waited_for_all>();
  passes<one_thread_waited_for_all>();
  passes<waited_together<false>>();
  finds_race<waited_together<true>>("written before a vote", "read after a vote");
}

TEST_CASE("what is read before the wait at an mbarrier differs: late copies haven't come") {
  std::vector<float16> x(64 * 64, float16(3.0f));
  DeviceArray<float16> device_x(x);
  const Tensor<const float16> X{device_x.data(), 1, 1, 64, 64, 0, 0, 64};
  late_and_early([&](const simt::Options& options) {
    DeviceArray<float> out(std::vector<float>(128, -1.0f));
    run<tile_not_waited_for>(1, 128, 8192, options, tile_map("X", X, 16, 64), argument("out", out));
    if (options.copies == simt::Copies::late)
      CHECK(std::isnan(out.values()[5]));
    else
      CHECK(out.values()[5] == 3);
  });
}

// ---------------------------------------------------------------------------------------------
// Ordinary accesses, then a copy

template <int fences>  // 1: by those who wrote, 2: by the one who copies, 4: too early
__global__ void copied_over_writes(Map K, Out out) {
  const Parts p = parts_of(1);
  if (fences & 4) fence_proxy_async();
  p.tile[threadIdx.x % 16][threadIdx.x / 16] = float16(1.0f);
  if (fences & 1) fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (fences & 2) fence_proxy_async();
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);  //! copied over writes
  }
  mbarrier_wait(p.full, 0);
  out[threadIdx.x] = sum_of_tile(p);
}
template <bool fenced>
__global__ void copied_over_reads(Map K, Out out) {
  const Parts p = parts_of(1);
  for (int k = 0; k < 2; ++k) {
    if (threadIdx.x == 0) {
      if (fenced) fence_proxy_async();
      mbarrier_arrive_expect(p.full, kTile);
      tma_load(p.tile, K, 16 * k, 0, 0, p.full);  //! copied over reads
    }
    mbarrier_wait(p.full, k);
    out[threadIdx.x] = sum_of_tile(p);
    __syncthreads();
  }
}
__global__ void copied_over_a_landed_copy(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0)
    for (int k = 0; k < 2; ++k) {
      mbarrier_arrive_expect(p.full, kTile);
      tma_load(p.tile, K, 16 * k, 0, 0, p.full);
      mbarrier_wait(p.full, k);  // nothing but copies: no fence
    }
}

TEST_CASE("a copy by TMA over ordinary accesses without a fence_proxy_async is found") {
  finds<copied_over_writes<0>>(simt::Fault::not_fenced, "copied over writes");
  finds<copied_over_writes<4>>(simt::Fault::not_fenced, "copied over writes");
  says<copied_over_writes<0>>("with no fence_proxy_async between");
  passes<copied_over_writes<1>>();
  passes<copied_over_writes<2>>();
  finds<copied_over_reads<false>>(simt::Fault::not_fenced, "copied over reads");
  passes<copied_over_reads<true>>();
  passes<copied_over_a_landed_copy>();
}

// ---------------------------------------------------------------------------------------------
// Stores

using OutMap = TileMap<float16>;

/// All 128 threads write a page of 16 rows: 8 elements each.
void write_page(const Parts& p, float value, int tile = 0) {
  for (int x = 0; x < 8; ++x)
    p.tile[tile * 16 + threadIdx.x % 16][threadIdx.x / 16 * 8 + x] = float16(value);
}

template <int fences>  // 1: by those who wrote, 2: by the one who asks, 4: too early
__global__ void stored_after_writes(Map, OutMap O, Out) {
  const Parts p;
  if (fences & 4) fence_proxy_async();
  write_page(p, 1);
  if (fences & 1) fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (fences & 2) fence_proxy_async();
    tma_store(O, p.tile, 0, 0, 0, 0);  //! stored after writes
    tma_store_wait();
  }
}
__global__ void stored_without_a_barrier(Map, OutMap O, Out) {
  const Parts p;
  if (threadIdx.x >= 32) return;
  for (int i = 0; i < 16; ++i)
    for (int x = 0; x < 2; ++x)
      p.tile[i][threadIdx.x * 2 + x] = float16(1.0f);  //! written by a lane
  fence_proxy_async();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile, 0, 0, 0, 0);  //! stored by another
    tma_store_wait();
  }
}
// Warps 0 to 2 write, and warp 3 asks. Which of them runs first depends on the order.
template <bool barrier>
__global__ void stored_by_another_warp(Map, OutMap O, Out) {
  const Parts p;
  if (threadIdx.x < 64)
    for (int x = 0; x < 16; ++x)
      p.tile[threadIdx.x % 16][threadIdx.x / 16 * 16 + x] = float16(1.0f);  //! written by a warp
  fence_proxy_async();
  if (barrier) __syncthreads();
  if (threadIdx.x == 96) {
    tma_store(O, p.tile, 0, 0, 0, 0);  //! stored by another warp
    tma_store_wait();
  }
}
template <int row>  // O has 40 rows: of the page from 32 on, it takes 8
__global__ void stored_half_written(Map, OutMap O, Out) {
  const Parts p;
  if (threadIdx.x % 16 < 8) write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile, 0, row, 0, 0);  //! stored half written
    tma_store_wait();
  }
}
// Copies by TMA all the way: no fence. X's row 0 goes to O's row 16.
template <bool waits>
__global__ void stored_as_it_came(Map K, OutMap O, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    if (waits) mbarrier_wait(p.full, 0);
    tma_store(O, p.tile, 0, 16, 0, 0);  //! stored as it came
    tma_store_wait();
  }
  mbarrier_wait(p.full, 0);
}
__global__ void stored_without_knowing(Map K, OutMap O, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    mbarrier_wait(p.full, 0);
  }
  __any_sync(kAllLanes, 1);  // moves values, orders no memory
  if (threadIdx.x == 1) {
    tma_store(O, p.tile, 0, 0, 0, 0);  //! stored without knowing
    tma_store_wait();
  }
}

TEST_CASE("a page that is stored by TMA before it is written, and known to be, is found") {
  finds<stored_after_writes<0>>(simt::Fault::not_fenced, "stored after writes");
  finds<stored_after_writes<4>>(simt::Fault::not_fenced, "stored after writes");
  says<stored_after_writes<0>>("read by a store; written by thread 0 at ");
  says<stored_after_writes<0>>("with no fence_proxy_async between");
  passes<stored_after_writes<1>>();
  passes<stored_after_writes<2>>();
  finds_race<stored_without_a_barrier>("stored by another", "written by a lane");
  late_and_early([](const simt::Options& options) {
    const simt::Report report = run_tma<stored_by_another_warp<false>>(options);
    INFO(report.text());
    REQUIRE(!report.ok());
    const int stored = line_of("stored by another warp"), written = line_of("written by a warp");
    const simt::Violation& v = report.violations[0];
    CHECK(v.fault ==
          (options.copies == simt::Copies::late ? simt::Fault::race : simt::Fault::copy_in_flight));
    const int a = simt::line_of_site(v.site), b = simt::line_of_site(v.other_site);
    CHECK(std::minmax({a, b}) == std::minmax({stored, written}));
  });
  passes<stored_by_another_warp<true>>();
  finds<stored_half_written<0>>(simt::Fault::uninitialised, "stored half written");
  passes<stored_half_written<32>>();
  finds<stored_as_it_came<false>>(simt::Fault::copy_in_flight, "stored as it came");
  says<stored_as_it_came<false>>("read by a store while the copy of thread 0 is under way");
  passes<stored_as_it_came<true>>();
  finds<stored_without_knowing>(simt::Fault::not_waited, "stored without knowing");
  late_and_early([](const simt::Options& options) {
    std::vector<float16> stored;
    run_tma<stored_as_it_came<true>>(options, &stored);
    for (std::size_t i = 0; i < 40;
         ++i)  // a piece of row 1 lies one place on, in shared memory alone
      for (std::size_t x = 0; x < 64; ++x)
        CHECK(static_cast<float>(stored[i * 64 + x]) ==
              (i / 16 == 1 ? static_cast<float>((i - 16) * 64 + x + 1) : -1));
  });
}

enum class Over { a_wait, nothing, a_vote, a_barrier };

/// A page is stored and written again, by its asker or by others, with all that it takes or less.
template <Over between, int writers>
__global__ void written_again(Map, OutMap O, Out) {
  const Parts p;
  for (int k = 0; k < 3; ++k) {
    if (k == 0) write_page(p, 1);
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      tma_store(O, p.tile, 0, 8 * k, 0, 0);  //! stored, and written again
      if (between != Over::nothing) tma_store_wait();
    }
    if (between == Over::a_vote) __any_sync(kAllLanes, 1);  // moves values, orders no memory
    if (between == Over::a_barrier) __syncthreads();
    if (writers == 1 && threadIdx.x == 0) p.tile[1][1] = float16(2.0f);  //! written by its asker
    if (writers == 2 && threadIdx.x == 9) p.tile[1][1] = float16(2.0f);  //! written by another
    if (writers == 128) write_page(p, 2);
    if (between == Over::nothing && threadIdx.x == 0) tma_store_wait();
  }
}
/// And with one that TMA brings.
template <bool waits>
__global__ void loaded_again(Map K, OutMap O, Out) {
  const Parts p = parts_of(1);
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile, 0, 0, 0, 0);
    if (waits) tma_store_wait();
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);  //! loaded again
    mbarrier_wait(p.full, 0);
    tma_store_wait();
  }
}
/// A box of which only the second half is being stored. One thread wrote all of it.
__global__ void loaded_over_a_half(Map K, OutMap O, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 32; ++i)
      for (int x = 0; x < 64; ++x) p.tile[i][x] = float16(1.0f);
    fence_proxy_async();
    tma_store(O, p.tile + 16, 0, 0, 0, 0);
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile + 8, K, 0, 0, 0, p.full);  //! loaded over a half
    mbarrier_wait(p.full, 0);
    tma_store_wait();
  }
}
/// Two threads have it stored, and both wait, but only of one of the waits the writer knows.
template <int arrivals>
__global__ void one_of_two_waited(Map, OutMap O, Out) {
  const Parts p = parts_of(arrivals);
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0 || threadIdx.x == 32) {
    tma_store(O, p.tile, 0, 0, 0, 0);
    tma_store_wait();
    if (threadIdx.x == 0 || arrivals == 2) mbarrier_arrive(p.full);
  }
  if (threadIdx.x == 64) {
    mbarrier_wait(p.full, 0);
    p.tile[15][63] = float16(2.0f);  //! one of two waited
  }
}
/// By a thread that learns of the wait at an mbarrier.
template <bool waits>
__global__ void handed_back(Map, OutMap O, Out) {
  const Parts p = parts_of(1);
  for (int k = 0; k < 4; ++k) {
    if (threadIdx.x < 32) {
      if (k > 0) mbarrier_wait_together(p.full, (k + 1) % 2);
      for (int i = 0; i < 16; ++i)
        for (int x = 0; x < 2; ++x) p.tile[i][threadIdx.x * 2 + x] = float16(1.0f);  //! handed back
      fence_proxy_async();
      __syncwarp();
      if (threadIdx.x == 0) mbarrier_arrive(p.full + 1);
    }
    if (threadIdx.x == 64) {
      mbarrier_wait(p.full + 1, k % 2);
      tma_store(O, p.tile, 0, 8 * k, 0, 0);  //! stored, to be handed back
      if (waits) tma_store_wait();
      mbarrier_arrive(p.full);
      if (!waits) tma_store_wait();
    }
  }
}
__global__ void stored_twice(Map, OutMap O, Out) {  // reads don't disturb each other
  const Parts p;
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    tma_store(O, p.tile, 0, 0, 0, 0);
    tma_store(O, p.tile, 0, 16, 0, 0);
  }
  if (static_cast<float>(float16(p.tile[threadIdx.x % 16][0])) != 1)
    write_page(p, 2);  // isn't done
  if (threadIdx.x % 32 == 0) tma_store_wait();
}

TEST_CASE("a page that is overwritten while a store by TMA reads it is found") {
  finds<written_again<Over::nothing, 1>>(simt::Fault::copy_in_flight, "written by its asker");
  finds<written_again<Over::a_vote, 2>>(simt::Fault::copy_in_flight, "written by another");
  says<written_again<Over::a_vote, 2>>(
      "written, but the store of thread 0, begun at tests/simt/faults_tma.cpp:" +
      std::to_string(line_of("stored, and written again")) +
      ", may still read it: no tma_store_wait comes between");
  passes<written_again<Over::a_wait, 1>>();
  passes<written_again<Over::a_barrier, 2>>();
  passes<written_again<Over::a_barrier, 128>>();
  finds<loaded_again<false>>(simt::Fault::copy_in_flight, "loaded again");
  passes<loaded_again<true>>();
  finds<loaded_over_a_half>(simt::Fault::copy_in_flight, "loaded over a half");
  finds<one_of_two_waited<1>>(simt::Fault::copy_in_flight, "one of two waited");
  passes<one_of_two_waited<2>>();
  finds<handed_back<false>>(simt::Fault::copy_in_flight, "handed back");
  passes<handed_back<true>>();
  passes<stored_twice>();
}

TEST_CASE(
    "what is stored of a page that is overwritten too early differs: late stores read later") {
  late_and_early([](const simt::Options& options) {
    std::vector<float16> stored;
    CHECK(!run_tma<written_again<Over::nothing, 1>>(options, &stored).ok());
    // Row 1's pieces have changed places in pairs.
    const float got = static_cast<float>(stored[64 + 9]);
    CHECK(got == (options.copies == simt::Copies::late ? 2 : 1));
  });
}

/// A load may begin before a head's first row, a store may not.
template <int page, int row, int head, int batch>
__global__ void stored_before_it(Map, OutMap O, Out) {
  const Parts p;
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile, page, row, head, batch);  //! stored before it
    tma_store_wait();
  }
}

TEST_CASE("a store by TMA to before the tensor is found") {
  finds<stored_before_it<0, -8, 0, 0>>(simt::Fault::global_bounds, "stored before it");
  finds<stored_before_it<-1, 0, 0, 0>>(simt::Fault::global_bounds, "stored before it");
  finds<stored_before_it<0, 0, -1, 0>>(simt::Fault::global_bounds, "stored before it");
  finds<stored_before_it<0, 0, 0, -1>>(simt::Fault::global_bounds, "stored before it");
  passes<stored_before_it<1, 0, 0, 0>>();
  passes<stored_before_it<0, 40, 0, 0>>();
  passes<stored_before_it<0, 0, 1, 0>>();
  passes<stored_before_it<0, 0, 0, 1>>();
}

__global__ void store_left_under_way(Map, OutMap O, Out) {
  const Parts p;
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 5) tma_store(O, p.tile, 0, 0, 0, 0);  //! store left under way
  if (threadIdx.x == 6) tma_store_wait();                  // for its own, and it has none
}
template <int first>
__global__ void stored_from(Map, OutMap O, Out) {
  const Parts p;
  write_page(p, 1);
  write_page(p, 1, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile + first, 0, 0, 0, 0);  //! stored from a strange place
    tma_store_wait();
  }
}

TEST_CASE("stores from strange places, and those nobody waits for, are found") {
  finds<store_left_under_way>(simt::Fault::copy_left, "store left under way");
  says<store_left_under_way>("no tma_store_wait after it: its 2048 bytes");
  finds<stored_from<4>>(simt::Fault::misaligned, "stored from a strange place");
  finds<stored_from<24>>(simt::Fault::shared_bounds, "stored from a strange place");
  says<stored_from<24>>("tile[39][63]");
  says<stored_from<24>>("read, but not in the tile");
  passes<stored_from<16>>();
}

TEST_CASE("a block doesn't remember the stores of another, and without checks they are done, too") {
  late_and_early([](simt::Options options) {
    options.workers = 1;
    const std::vector<float16> x(64 * 64, float16(1.0f));
    DeviceArray<float16> device_x(x), device_o(x);
    DeviceArray<float> out(std::vector<float>(128, -1.0f));
    const Tensor<const float16> X{device_x.data(), 1, 1, 64, 64, 0, 0, 64};
    const Tensor<float16> O{device_o.data(), 1, 1, 64, 64, 0, 0, 64};
    for (const bool checks : {true, false}) {
      options.checks = options.counters = checks;
      check_passes(run<written_again<Over::a_barrier, 128>>(3,
                                                            128,
                                                            8192,
                                                            options,
                                                            tile_map("X", X, 16, 64),
                                                            tile_map("O", O, 16, 64),
                                                            argument("out", out)));
      CHECK(static_cast<float>(device_o.values()[20 * 64]) == 2);
    }
    options.checks = true;
    CHECK(run<store_left_under_way>(3,
                                    128,
                                    8192,
                                    options,
                                    tile_map("X", X, 16, 64),
                                    tile_map("O", O, 16, 64),
                                    argument("out", out))
              .violation_count == 3);
  });
}

/// A ring of two tiles: the last warp to release one fills it again. One thing may be missing.
enum class Without { nothing, syncwarp, fence, the_last, wait };

template <Without without>
__global__ void ring(Map K, Out out) {
  const Parts p = parts_of(1);
  const int lane = threadIdx.x % 32;
  const auto fill = [&](int k) {
    mbarrier_arrive_expect(p.full + k % 2, kTile);
    tma_load(p.tile + k % 2 * 16, K, 16 * k, 0, 0, p.full + k % 2);  //! refilled
  };
  if (threadIdx.x == 0) fill(0), fill(1);
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    if (without != Without::wait || k != 1) mbarrier_wait(p.full + k % 2, k / 2);
    for (int x = 0; x < 64; ++x) sum += p.tile[k % 2 * 16 + lane % 16][x];  //! read in the ring
    if (without != Without::syncwarp) __syncwarp();
    const int last = without == Without::the_last ? 0 : 3;
    if (lane == 0 && arrive_at(p.counter + k % 2) == last && k + 2 < 4) {
      if (without != Without::fence) fence_proxy_async();
      fill(k + 2);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_CASE("a tile of a ring that is filled again before all have released it is found") {
  passes<ring<Without::nothing>>();
  finds_race<ring<Without::syncwarp>>("refilled", "read in the ring");
  finds<ring<Without::fence>>(simt::Fault::not_fenced, "refilled");
  // Who reads first, a warp that is late or the copy that comes too early, depends on the order.
  late_and_early([](const simt::Options& options) {
    const simt::Report report = run_tma<ring<Without::the_last>>(options);
    INFO(report.text());
    REQUIRE(!report.ok());
    const int refilled = line_of("refilled"), read = line_of("read in the ring");
    const simt::Violation& v = report.violations[0];
    const int a = simt::line_of_site(v.site), b = simt::line_of_site(v.other_site);
    CHECK(((a == refilled && b == read) || (a == read && b == refilled)));
  });
  finds<ring<Without::wait>>(simt::Fault::copy_in_flight, "read in the ring");
}

/// Warp 3 fills a ring of two tiles, the others read them; mbarriers tell of both.
enum class Lax { nobody, filler, readers };

template <Lax lax, int arrivals>  // at `empty`: by all readers, or by a lane of each of their warps
__global__ void filled_by_a_warp(Map K, Out out) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 64> tile = memory.tile<float16, 64>("tile", 2 * 16);
  const Shared<Mbarrier> full = memory.array<Mbarrier>("full", 2);
  const Shared<Mbarrier> empty = memory.array<Mbarrier>("empty", 2);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    mbarrier_init(full + threadIdx.x, 1);
    mbarrier_init(empty + threadIdx.x, arrivals);
  }
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    const int stage = k % 2, round = k / 2;
    if (warp == 3) {
      if (lane != 0) continue;
      // In the first round the phase before the first is over.
      if (lax != Lax::filler) mbarrier_wait(empty + stage, (round + 1) % 2);
      fence_proxy_async();
      mbarrier_arrive_expect(full + stage, kTile);
      tma_load(tile + stage * 16, K, 16 * (k % 4), 0, 0, full + stage);  //! filled by a warp
    } else {
      mbarrier_wait(full + stage, round % 2);
      for (int x = 0; x < 64; ++x) sum += tile[stage * 16 + lane % 16][x];  //! read by the others
      if (arrivals == 3 && lax != Lax::readers) __syncwarp();
      if (arrivals == 96 || lane == 0) mbarrier_arrive(empty + stage);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_CASE("one warp fills, others read, mbarriers tell of both") {
  passes<filled_by_a_warp<Lax::nobody, 3>>();
  passes<filled_by_a_warp<Lax::nobody, 96>>();
  finds_race<filled_by_a_warp<Lax::readers, 3>>("filled by a warp", "read by the others");
  late_and_early([](const simt::Options& options) {
    CHECK(!run_tma<filled_by_a_warp<Lax::filler, 3>>(options).ok());
  });
}

TEST_CASE("blocks begin anew, and kernels run without checks or counters, too") {
  late_and_early([](simt::Options options) {
    std::vector<float16> x(64 * 64, float16(1.0f));
    DeviceArray<float16> device_x(x);
    const Tensor<const float16> X{device_x.data(), 1, 1, 64, 64, 0, 0, 64};
    options.workers = 1;
    for (const bool checks : {true, false})
      for (const bool counters : {true, false}) {
        DeviceArray<float> out(std::vector<float>(128, -1.0f));
        options.checks = checks;
        options.counters = counters;
        check_passes(run<ring<Without::nothing>>(
            5, 128, 8192, options, tile_map("X", X, 16, 64), argument("out", out)));
        for (const float sum : out.values()) CHECK(sum == 4 * 64);
      }
    options.checks = options.counters = true;
    DeviceArray<float> out(std::vector<float>(128, -1.0f));
    const simt::Report report = run<tile_not_waited_for>(
        5, 128, 8192, options, tile_map("X", X, 16, 64), argument("out", out));
    CHECK(report.violation_count == 5 * 4 * 16);  // by block, warp and row
  });
}

// ---------------------------------------------------------------------------------------------
// Order by mbarriers and counters

template <bool waits>
__global__ void handed_on(Map, Out out) {  // by warp 0 to warp 1, to warp 2, to warp 3
  const Parts p = parts_of(32);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    p.s[lane] = 1;  //! handed on
    mbarrier_arrive(p.full);
  }
  if (warp == 1) {
    if (waits) mbarrier_wait(p.full, 0);
    p.s[lane + 32] = 2;
    mbarrier_arrive(p.full + 1);
  }
  if (warp == 2) {
    mbarrier_wait(p.full + 1, 0);
    __syncwarp();
    if (lane == 0) arrive_at(p.counter);
  }
  if (warp == 3) {
    int before = 1;
    if (lane == 0) before = arrive_at(p.counter);
    before = __shfl_sync(kAllLanes, before, 0);
    __syncwarp();
    if (before == 1) out[lane] = p.s[31 - lane];  //! handed on to the last
  }
}
// Every thread reads all of a row and arrives by itself, after lanes have gone different ways.
__global__ void each_lane_arrives(Map K, Out out) {
  const Parts p = parts_of(128);
  if (threadIdx.x == 0) mbarrier_init(p.other, 1);
  __syncthreads();
  const auto fill = [&](int k) {
    mbarrier_arrive_expect(p.other, kTile);
    tma_load(p.tile, K, 16 * k, 0, 0, p.other);
  };
  if (threadIdx.x == 0) fill(0);
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    mbarrier_wait(p.other, k % 2);
    if (threadIdx.x % 2) sum += p.tile[3][5];
    for (int x = 0; x < 64; ++x) sum += p.tile[threadIdx.x % 16][x];
    mbarrier_arrive(p.full);
    if (threadIdx.x != 0 || k == 3) continue;
    mbarrier_wait(p.full, k % 2);
    fence_proxy_async();
    fill(k + 1);
  }
  out[threadIdx.x] = sum;
}
__global__ void read_after_arriving(Map, Out out) {
  const Parts p = parts_of(128);
  mbarrier_arrive(p.full);
  p.s[threadIdx.x] = 1;  //! written after arriving
  mbarrier_wait(p.full, 0);
  out[threadIdx.x] = p.s[127 - threadIdx.x];  //! read after waiting
}
__global__ void written_before_arriving(Map, Out out) {
  const Parts p = parts_of(128);
  for (int k = 0; k < 4; ++k) {
    p.s[threadIdx.x] = static_cast<float>(k);
    mbarrier_arrive(p.full);
    mbarrier_wait(p.full, k % 2);
    out[threadIdx.x] = p.s[127 - threadIdx.x];
    mbarrier_arrive(p.full + 1);
    mbarrier_wait(p.full + 1, k % 2);
  }
}
// What arrives in a phase is known to those who wait for that phase, not for the one before.
__global__ void of_the_phase_before(Map, Out out) {
  const Parts p = parts_of(2);
  const int t = threadIdx.x;
  if (t == 32 || t == 96) mbarrier_arrive(p.full);
  if (t == 32 || t == 96) mbarrier_wait(p.full, 0);
  if (t == 32) {
    p.s[0] = 1;  //! written in the next phase
    mbarrier_arrive(p.full);
  }
  __syncwarp();
  if (t == 64) {
    mbarrier_wait(p.full, 0);
    out[0] = p.s[0];  //! read in the phase before
  }
}

TEST_CASE("mbarriers and counters order accesses, by what was known at the arrival") {
  passes<written_before_arriving>();
  passes<each_lane_arrives>();
  finds_race<read_after_arriving>("written after arriving", "read after waiting");
  simt::Options options;
  check_passes(run_tma<handed_on<true>>(options));
  check_finds_race(run_tma<handed_on<false>>(options), "handed on", "handed on to the last");
  options.copies = simt::Copies::early;  // then warp 3 comes first, and reads nothing
  check_passes(run_tma<handed_on<true>>(options));
  finds_race<of_the_phase_before>("written in the next phase", "read in the phase before");
}

__global__ void counter_not_set(Map, Out) {
  const Parts p;
  if (threadIdx.x == 0) arrive_at(p.counter);  //! counter not set
}
__global__ void counter_set_meanwhile(Map, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x % 64 == 0) arrive_at(p.counter);  //! counted
  if (threadIdx.x == 32) p.counter[0] = 0;          //! set meanwhile
}
__global__ void counter_read_meanwhile(Map, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x % 64 == 0) arrive_at(p.counter);                   //! counted, and read
  if (threadIdx.x == 32) out[0] = static_cast<float>(p.counter[0]);  //! read meanwhile
}
__global__ void counted_by_all(Map, Out out) {
  const Parts p = parts_of(1);
  arrive_at(p.counter);
  __syncthreads();
  if (threadIdx.x == 96) p.counter[0] = static_cast<int>(p.counter[0]) - 128;
  __syncthreads();
  arrive_at(p.counter);
  arrive_at(p.counter);
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(p.counter[0]);
}

TEST_CASE("counters that aren't set, or touched otherwise meanwhile, are found") {
  finds<counter_not_set>(simt::Fault::uninitialised, "counter not set");
  finds_race<counter_set_meanwhile>("counted", "set meanwhile");
  finds_race<counter_read_meanwhile>("counted, and read", "read meanwhile");
  passes<counted_by_all>();
}

// ---------------------------------------------------------------------------------------------
// Counts

__global__ void two_boxes(Map K, Out out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, 2 * kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
    tma_load(p.tile + 16, K, 56, 0, 0, p.full);  // 8 rows that aren't there
  }
  mbarrier_wait(p.full, 0);
  if (arrive_at(p.counter) < 0) out[0] = 0;
}
__global__ void one_box_together(Map K, Out) {
  const Parts p = parts_of(1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(p.full, kTile);
    tma_load(p.tile, K, 0, 0, 0, p.full);
  }
  mbarrier_wait_together(p.full, 0);
}

TEST_CASE("copies by TMA, arrivals and waits are counted") {
  late_and_early([](const simt::Options& options) {
    const simt::Counters c = run_tma<two_boxes>(options).total;
    CHECK(c.tma_copies == 2);
    CHECK(c.tma_bytes == (16 + 8) * 128);
    CHECK(c.tma_sectors == (16 + 8) * 4);
    CHECK(c.global_load_bytes + c.async_copy_bytes == 0);
    CHECK(c.mbarrier_arrivals == 1);
    CHECK(c.mbarrier_waits == 4);
    CHECK(c.shared_atomics == 128);
    const simt::Counters together = run_tma<one_box_together>(options).total;
    CHECK(together.mbarrier_waits == 4);
    CHECK(together.votes == 4);
  });
}

// 16 rows, 8 of 16, and none.
__global__ void three_stores(Map, OutMap O, Out) {
  const Parts p;
  write_page(p, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(O, p.tile, 0, 0, 0, 0);
    tma_store(O, p.tile, 0, 32, 0, 0);
    tma_store(O, p.tile, 1, 0, 0, 0);  // there is no such page
    tma_store_wait();
  }
}

TEST_CASE("stores by TMA are counted") {
  late_and_early([](const simt::Options& options) {
    const simt::Counters c = run_tma<three_stores>(options).total;
    CHECK(c.tma_stores == 3);
    CHECK(c.tma_store_bytes == (16 + 8) * 128);
    CHECK(c.tma_store_sectors == (16 + 8) * 4);
    CHECK(c.global_store_bytes + c.tma_bytes + c.tma_copies == 0);
  });
}

// An arrival between accesses doesn't tear warp instructions apart.
__global__ void one_lane_arrives(Map, Out) {
  const Parts p = parts_of(4);
  p.s[threadIdx.x] = 1;
  if (threadIdx.x % 32 == 0) mbarrier_arrive(p.full);
  for (int k = 0; k < 3; ++k) p.s[threadIdx.x] += 1;
}

TEST_CASE("accesses around one lane's arrival are counted by warp") {
  const simt::Counters c = run_tma<one_lane_arrives>({}).total;
  CHECK(c.shared_load_requests == 3 * 4);
  CHECK(c.shared_store_requests == 4 * 4 + 2);  // and the two counters
}

}  // namespace
}  // namespace fa::test
