// What the emulator finds: for each kind of mistake kernels that make it, named with the right
// line, and beside them kernels that don't and must pass. A comment `//! name` marks the line to be
// named.
#include "tests/simt/faults.hpp"

namespace fa::test {
namespace {

/// One block of `threads`, with an array of floats as argument and shared memory.
template <auto kernel>
simt::Report run_one(unsigned threads, const simt::Options& options = {}) {
  DeviceArray<float> x(counting(512));
  return run<kernel>(1, threads, 4096, options, argument("x", x));
}

Shared<float> floats(const char* name, Index n = 256) {
  SharedMemory memory = shared_memory();
  return memory.array<float>(name, n);
}

// ---------------------------------------------------------------------------------------------
// Barriers

__global__ void barrier_in_a_branch(Global<float> x) {
  const int t = threadIdx.x;
  if (t < 32) __syncthreads();  //! barrier in a branch
  __syncthreads();
  x[t] = 1;
}
__global__ void return_before_barrier(Global<float> x) {
  const int t = threadIdx.x;
  if (t >= 48) return;
  __syncthreads();  //! barrier after a return
  x[t] = 1;
}
__global__ void two_barriers(Global<float> x) {
  const int t = threadIdx.x;
  if (t < 32)
    __syncthreads();  //! one of two barriers
  else
    __syncthreads();
  x[t] = 1;
}
__global__ void barrier_in_a_uniform_branch(Global<float> x) {
  const int t = threadIdx.x;
  for (int k = 0; k < 3; ++k)
    if (blockIdx.x == 0) __syncthreads();
  x[t] = 1;
}

TEST_CASE("a barrier that not all threads reach is found") {
  check_finds(run_one<barrier_in_a_branch>(64), simt::Fault::barrier, "barrier in a branch");
  check_finds(run_one<return_before_barrier>(64), simt::Fault::barrier, "barrier after a return");
  check_finds(run_one<two_barriers>(64), simt::Fault::barrier, "one of two barriers");
  check_passes(run_one<barrier_in_a_uniform_branch>(64));
  check_passes(run_one<barrier_in_a_uniform_branch>(33));
}

TEST_CASE("the report says which threads are where") {
  const std::string text = run_one<return_before_barrier>(64).text();
  INFO(text);
  CHECK(text.find("threads 0-47 at __syncthreads (tests/simt/faults.cpp:" +
                  std::to_string(line_of("barrier after a return")) + ")") != std::string::npos);
  CHECK(text.find("threads 48-63 returned") != std::string::npos);
  CHECK(text.find("return_before_barrier") != std::string::npos);
}

// ---------------------------------------------------------------------------------------------
// Bounds and alignment

__global__ void read_beyond(Global<float> x) {
  const float v = x[threadIdx.x + 449];  //! read beyond
  if (v == -1) x[0] = v;
}
__global__ void read_before(Global<float> x) {
  const float v = (x - 1)[threadIdx.x];  //! read before
  if (v == -1) x[0] = v;
}
__global__ void write_beyond(Global<float> x) {
  x[threadIdx.x + 456] = 1;  //! write beyond
}
__global__ void write_within(Global<float> x) { (x + 448)[threadIdx.x] += 1; }

TEST_CASE("global accesses out of bounds are found") {
  check_finds(run_one<read_beyond>(64), simt::Fault::global_bounds, "read beyond");
  check_finds(run_one<read_before>(64), simt::Fault::global_bounds, "read before");
  check_finds(run_one<write_beyond>(64), simt::Fault::global_bounds, "write beyond");
  check_passes(run_one<write_within>(64));

  const simt::Report report = run_one<write_beyond>(64);
  CHECK(report.violation_count == 8);  // threads 56 to 63
  CHECK(report.violations.size() == 1);
  CHECK(report.violations[0].thread == 56);
  CHECK(report.violations[0].address.find("x[512]") == 0);
}

__global__ void read_row(GlobalTensor<const float> Q, Global<float> out, Index i, int columns) {
  const Global<const float> q_i = Q.head(1, 2)[i];
  float sum = 0;
  for (int k = 0; k < columns; ++k) sum += q_i[k];  //! read a row
  out[0] = sum;
}

TEST_CASE("elements of a tensor with gaps have names, the gaps are out of bounds") {
  // [B 2, H 3, N 5, d 7], rows 8 apart, stored as [B, N, H, d].
  DeviceArray<float> q(counting(2 * 5 * 3 * 8)), out(counting(1));
  const auto read = [&](Index i, int columns) {
    const Tensor<const float> Q{q.data(), 2, 3, 5, 7, 120, 8, 24};
    return run<read_row>(1, 1, 0, {}, global("Q", Q), argument("out", out), i, columns);
  };
  check_passes(read(4, 7));
  check_finds(read(3, 8), simt::Fault::global_bounds, "read a row");
  CHECK(read(3, 8).violations[0].address == "Q[1, 2, 3, 7]");
  check_finds(read(5, 7), simt::Fault::global_bounds, "read a row");
  CHECK(read(5, 7).violations[0].address.find("behind its last") != std::string::npos);
}

__global__ void write_beyond_array(Global<float>) {
  const Shared<float> s = floats("s", 64);
  s[threadIdx.x + 1] = 1;  //! write beyond array
}
__global__ void write_beyond_row(Global<float>) {
  SharedMemory memory = shared_memory();
  const SharedTile<float, 33> s = memory.tile<float, 33>("s", 4);
  s[threadIdx.x / 32][threadIdx.x % 32 + 2] = 1;  //! write beyond row
}
__global__ void write_beyond_tile(Global<float>) {
  SharedMemory memory = shared_memory();
  const SharedTile<float, 33> s = memory.tile<float, 33>("s", 4);
  s[threadIdx.x / 16 + 1][threadIdx.x % 16] = 1;  //! write beyond tile
}
__global__ void too_large_tile(Global<float>) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 1025);  //! too large a tile
  s[threadIdx.x] = 1;
}
__global__ void no_room_for_the_tile(Global<float>) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 1024);
  const Shared<float> more = memory.array<float>("more", 1 << 20);  //! no room for the tile
  s[threadIdx.x] = 1;
  more[threadIdx.x + 100000] = 1;
}
__global__ void write_within_tile(Global<float>) {
  SharedMemory memory = shared_memory();
  const SharedTile<float, 33> s = memory.tile<float, 33>("s", 4);
  s[threadIdx.x / 16][threadIdx.x % 16 + 17] = 1;
}

// Vectors, copies and ldmatrix end with the row too.
SharedTile<float16, 16> small_tile() {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 16> s = memory.tile<float16, 16>("s", 33);
  if (threadIdx.x < 32)
    for (int x = 0; x < 16; ++x) s[threadIdx.x][x] = float16(1.0f);
  __syncthreads();
  return s;
}
__global__ void vector_beyond_row(Global<float> x) {
  const SharedTile<float16, 16> s = small_tile();
  const auto four = load_vector<uint2>(s[threadIdx.x] + 16);  //! vector beyond row
  x[threadIdx.x] = static_cast<float>(four.x);
}
__global__ void copy_beyond_row(Global<float> x) {
  const SharedTile<float16, 16> s = small_tile();
  cp_async_16(s[threadIdx.x] + 16, Global<const float16>(), 0);  //! copy beyond row
  x[threadIdx.x] = 0;
}
__global__ void ldmatrix_beyond_row(Global<float> x) {
  const SharedTile<float16, 16> s = small_tile();
  std::uint32_t r[4];
  ldmatrix_x4(r, s[threadIdx.x] + 16);  //! ldmatrix beyond row
  x[threadIdx.x] = 0;
}
__global__ void vectors_within_row(Global<float> x) {
  const SharedTile<float16, 16> s = small_tile();
  const auto four = load_vector<uint2>(s[threadIdx.x] + 12);
  std::uint32_t r[4];
  ldmatrix_x4(r, s[threadIdx.x] + 8);
  x[threadIdx.x] = static_cast<float>(four.x + r[0]);
}

TEST_CASE("vectors, copies and ldmatrix beyond a tile's row are found") {
  for (const auto& [report, mark] :
       {std::pair{run_one<vector_beyond_row>(32), "vector beyond row"},
        std::pair{run_one<copy_beyond_row>(32), "copy beyond row"},
        std::pair{run_one<ldmatrix_beyond_row>(32), "ldmatrix beyond row"}}) {
    check_finds(report, simt::Fault::shared_bounds, mark);
    CHECK(report.violation_count == 32);
    CHECK(report.violations[0].address == "s[0][16]");
  }
  check_passes(run_one<vectors_within_row>(32));
}

__global__ void copy_of_bytes(Global<float> x, int bytes) {
  const Shared<float> s = floats("s");
  cp_async_16(s + 4 * threadIdx.x, x + 4 * threadIdx.x, bytes);  //! copy of bytes
  cp_async_commit();
  cp_async_wait<0>();
}

TEST_CASE("copies of too many bytes, of fewer than none or of half an element are found") {
  const auto copy = [](int bytes) {
    DeviceArray<float> x(counting(512));
    return run<copy_of_bytes>(1, 32, 4096, {}, argument("x", x), bytes);
  };
  for (const int bytes : {-4, 6, 17, 20, 32, 160, 16384})
    check_finds(copy(bytes), simt::Fault::copy_size, "copy of bytes");
  for (const int bytes : {0, 4, 12, 16}) check_passes(copy(bytes));
}

// `auto v = s[t];` is a float for nvcc. Here it would be the element, read when v is used.
using SharedElement = decltype(std::declval<Shared<float>>()[0]);
static_assert(std::is_convertible_v<SharedElement, float>, "an element is read where it stands");
static_assert(!std::is_convertible_v<SharedElement&, float>, "one with a name isn't read later");

TEST_CASE("shared accesses out of bounds are found") {
  check_finds(run_one<write_beyond_array>(64), simt::Fault::shared_bounds, "write beyond array");
  check_finds(run_one<write_beyond_row>(64), simt::Fault::shared_bounds, "write beyond row");
  check_finds(run_one<write_beyond_tile>(64), simt::Fault::shared_bounds, "write beyond tile");
  check_finds(run_one<too_large_tile>(64), simt::Fault::shared_bounds, "too large a tile");
  check_finds(
      run_one<no_room_for_the_tile>(64), simt::Fault::shared_bounds, "no room for the tile");
  check_passes(run_one<write_within_tile>(64));
  CHECK(run_one<write_beyond_row>(64).violations[0].address == "s[0][33]");
  CHECK(run_one<write_beyond_tile>(64).violations[0].address == "s[4][0]");
}

__global__ void misaligned_global(Global<float> x) {
  const float4 v = load_vector<float4>(x + threadIdx.x * 2);  //! misaligned global
  if (v.x == -1) x[0] = v.x;
}
__global__ void misaligned_shared(Global<float>) {
  const Shared<float> s = floats("s");
  store_vector(s + threadIdx.x * 4 + 1, float2{1, 2});  //! misaligned shared
}
__global__ void aligned(Global<float> x) {
  const Shared<float> s = floats("s");
  store_vector(s + threadIdx.x * 4, load_vector<float4>(x + threadIdx.x * 4));
  store_vector(s + threadIdx.x * 4 + 2, float2{1, 2});
}

TEST_CASE("misaligned vectors are found") {
  check_finds(run_one<misaligned_global>(32), simt::Fault::misaligned, "misaligned global");
  check_finds(run_one<misaligned_shared>(32), simt::Fault::misaligned, "misaligned shared");
  check_passes(run_one<aligned>(32));
}

// ---------------------------------------------------------------------------------------------
// Shared memory that nothing wrote, and races

__global__ void read_unwritten(Global<float> x) {
  const Shared<float> s = floats("s");
  if (threadIdx.x < 63) s[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];  //! read unwritten
}
__global__ void read_written(Global<float> x) {
  const Shared<float> s = floats("s");
  for (int k = 0; k < 2; ++k) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
    __syncthreads();
  }
}

// The write that comes after the read, in order, is no excuse.
__global__ void add_to_unwritten(Global<float> x) {
  const Shared<float> s = floats("s");
  s[threadIdx.x] += x[threadIdx.x];  //! add to unwritten
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}
__global__ void write_after_reading(Global<float> x) {
  const Shared<float> s = floats("s");
  const float before = s[threadIdx.x];  //! read before the first write
  __syncwarp();
  s[threadIdx.x ^ 1] = before;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}

TEST_CASE("a read of shared memory that nothing wrote is found") {
  check_finds(run_one<add_to_unwritten>(64), simt::Fault::uninitialised, "add to unwritten");
  CHECK(run_one<add_to_unwritten>(64).violation_count == 64);
  check_finds(
      run_one<write_after_reading>(64), simt::Fault::uninitialised, "read before the first write");
  const simt::Report report = run_one<read_unwritten>(64);
  check_finds(report, simt::Fault::uninitialised, "read unwritten");
  CHECK(report.violations[0].thread == 63);
  CHECK(report.violations[0].address.find("s[63]") == 0);
  check_passes(run_one<read_written>(64));
  // Of an earlier block's shared memory nothing is left.
  DeviceArray<float> x(counting(512));
  const simt::Report blocks = run<read_unwritten>(3, 64, 4096, {}, argument("x", x));
  CHECK(blocks.violation_count == 3);
}

__global__ void no_barrier_after_write(Global<float> x) {
  const Shared<float> s = floats("s");
  s[threadIdx.x] = 1;  //! write without a barrier after
  __syncwarp();
  x[threadIdx.x] = s[63 - threadIdx.x];  //! read without a barrier before
}
__global__ void no_barrier_before_write(Global<float> x) {
  const Shared<float> s = floats("s");
  for (int k = 0; k < 2; ++k) {
    s[threadIdx.x] = 1;  //! write without a barrier before
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];  //! read without a barrier after
  }
}
__global__ void no_syncwarp(Global<float> x) {
  const Shared<float> s = floats("s");
  s[threadIdx.x] = 1;
  const float sum = __shfl_xor_sync(kAllLanes, 1.0f, 1);  // moves values, orders no memory
  x[threadIdx.x] = s[threadIdx.x ^ 1] + sum;              //! read without a syncwarp
}
__global__ void with_syncwarp(Global<float> x) {
  const Shared<float> s = floats("s");
  for (int k = 0; k < 2; ++k) {
    s[threadIdx.x] = 1;
    __syncwarp();
    x[threadIdx.x] = s[threadIdx.x ^ 1];
    __syncwarp();
  }
}
__global__ void with_part_of_a_warp(Global<float> x) {
  const Shared<float> s = floats("s");
  const unsigned mask = 0xffu << (threadIdx.x / 8 * 8);
  s[threadIdx.x] = 1;
  __syncwarp(mask);
  x[threadIdx.x] = s[threadIdx.x ^ 7];
}
__global__ void with_the_wrong_part(Global<float> x) {
  const Shared<float> s = floats("s");
  const unsigned mask = 0xffu << (threadIdx.x / 8 * 8);
  s[threadIdx.x] = 1;
  __syncwarp(mask);
  x[threadIdx.x] = s[threadIdx.x ^ 8];  //! read across parts
}
__global__ void all_write_one(Global<float>) {
  const Shared<float> s = floats("s");
  s[threadIdx.x / 2] = 1;  //! all write one
}
__global__ void write_halves(Global<float>) {
  SharedMemory memory = shared_memory();
  const Shared<float16> s = memory.array<float16>("s", 64);
  s[threadIdx.x] = float16(1.0f);  // two threads a word, and no race
}

TEST_CASE("races are found, with both lines") {
  const simt::Report report = run_one<no_barrier_after_write>(64);
  check_finds_race(report, "write without a barrier after", "read without a barrier before");
  for (const simt::Violation& v : report.violations) CHECK(v.fault == simt::Fault::race);
  check_finds_race(run_one<no_barrier_before_write>(64),
                   "write without a barrier before",
                   "read without a barrier after");
  check_finds(run_one<no_syncwarp>(64), simt::Fault::race, "read without a syncwarp");
  check_passes(run_one<with_syncwarp>(64));
  check_passes(run_one<with_part_of_a_warp>(32));
  check_finds(run_one<with_the_wrong_part>(32), simt::Fault::race, "read across parts");
  check_finds(run_one<all_write_one>(32), simt::Fault::race, "all write one");
  check_passes(run_one<write_halves>(64));
}

TEST_CASE("races are found whichever warp runs first") {
  simt::Options early;
  early.copies = simt::Copies::early;
  CHECK(!run_one<no_barrier_after_write>(64, early).ok());
  CHECK(!run_one<no_barrier_before_write>(64, early).ok());
  check_passes(run_one<read_written>(64, early));
}

// ---------------------------------------------------------------------------------------------
// Operations of a warp

__global__ void shuffle_in_a_branch(Global<float> x) {
  const int t = threadIdx.x;
  float v = 1;
  if (t < 16) v = __shfl_xor_sync(kAllLanes, v, 1);  //! shuffle in a branch
  __syncwarp();
  x[t] = v;
}
__global__ void shuffles_in_both_branches(Global<float> x) {
  const int t = threadIdx.x;
  float v = 1;
  if (t < 16)
    v = __shfl_xor_sync(kAllLanes, v, 1);  //! shuffle in one branch
  else
    v = __shfl_xor_sync(kAllLanes, v, 2);
  x[t] = v;
}
__global__ void shuffle_of_half(Global<float> x) {
  const int t = threadIdx.x;
  float v = 1;
  if (t < 16) v = __shfl_xor_sync(0xffffu, v, 1);
  x[t] = v;
}
__global__ void shuffle_from_outside(Global<float> x) {
  const int t = threadIdx.x;
  float v = 1;
  if (t < 16) v = __shfl_xor_sync(0xffffu, v, 16);  //! shuffle from outside
  x[t] = v;
}
__global__ void product_by_half(Global<float> x) {
  float d[4] = {}, c[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x < 16) mma_m16n8k16<float16>(d, a, b, c);  //! product by half a warp
  __syncwarp();
  x[threadIdx.x] = d[0];
}

TEST_CASE("divergent operations of a warp are found") {
  check_finds(run_one<shuffle_in_a_branch>(32), simt::Fault::divergence, "shuffle in a branch");
  check_finds(
      run_one<shuffles_in_both_branches>(32), simt::Fault::divergence, "shuffle in one branch");
  check_finds(run_one<product_by_half>(32), simt::Fault::divergence, "product by half a warp");
  check_passes(run_one<shuffle_of_half>(32));
  check_finds(run_one<shuffle_from_outside>(32), simt::Fault::shuffle, "shuffle from outside");
}

// ---------------------------------------------------------------------------------------------
// Asynchronous copies

__global__ void no_wait(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  cp_async_16(s + t * 4, x + t * 4, 16);
  cp_async_commit();
  __syncthreads();
  x[t] = s[t];  //! read before the wait
}
__global__ void too_short_a_wait(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    cp_async_16(s + k * 128 + t * 4, x + k * 128 + t * 4, 16);
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  x[t] = s[t] + s[128 + t];  //! read after too short a wait
}
__global__ void no_barrier_after_wait(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  cp_async_16(s + t * 4, x + t * 4, 16);  //! copied for others
  cp_async_commit();
  cp_async_wait<0>();
  x[t] = s[t];  //! read what others copied
}
__global__ void refilled_too_early(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    cp_async_16(s + t * 4, x + k * 256 + t * 4, 16);  //! refilled too early
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    x[t] = s[(t + 32) % 64 + 64];  //! read before the refill
  }
}
__global__ void written_during_copy(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  cp_async_16(s + t * 4, x + t * 4, 16);
  s[t * 4] = 1;  //! written during a copy
  cp_async_commit();
  cp_async_wait<0>();
}
__global__ void well_copied(Global<float> x) {
  const Shared<float> s = floats("s");
  const int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    __syncthreads();
    cp_async_16(s + t * 4, x + k * 256 + t * 4, t % 2 ? 16 : 4);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    x[t] = s[(t + 32) % 64 + 64];
  }
}

TEST_CASE("data of a copy touched before its wait is found, late or early") {
  for (const simt::Copies copies : {simt::Copies::late, simt::Copies::early}) {
    simt::Options options;
    options.copies = copies;
    check_finds(run_one<no_wait>(64, options), simt::Fault::copy_in_flight, "read before the wait");
    check_finds(run_one<too_short_a_wait>(32, options),
                simt::Fault::copy_in_flight,
                "read after too short a wait");
    check_finds_race(run_one<no_barrier_after_wait>(64, options),
                     "copied for others",
                     "read what others copied");
    check_finds_race(
        run_one<refilled_too_early>(64, options), "refilled too early", "read before the refill");
    check_finds(run_one<written_during_copy>(32, options),
                simt::Fault::copy_in_flight,
                "written during a copy");
    check_passes(run_one<well_copied>(32, options));
    check_passes(run_one<well_copied>(64, options));
  }
}

TEST_CASE("what is read before the wait differs: late copies haven't come, early ones have") {
  DeviceArray<float> x(counting(512));
  simt::Options options;
  run<no_wait>(1, 64, 4096, options, argument("x", x));
  CHECK(std::isnan(x.values()[5]));
  options.copies = simt::Copies::early;
  DeviceArray<float> y(counting(512));
  run<no_wait>(1, 64, 4096, options, argument("x", y));
  CHECK(y.values()[5] == 5);
}

__global__ void ldmatrix_of_a_copy(Global<const float16> x, Global<float> out, int wait) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 8> s = memory.tile<float16, 8>("s", 32);
  const int t = threadIdx.x;
  cp_async_16(s[t] + 0, x + t * 8, 16);
  cp_async_commit();
  if (wait) cp_async_wait<0>();
  if (wait > 1) __syncwarp();
  std::uint32_t r[4];
  ldmatrix_x4(r, s[t] + 0);  //! ldmatrix of a copy
  out[t] = static_cast<float>(r[0] & 1);
}

TEST_CASE("ldmatrix reads on behalf of the whole warp") {
  DeviceArray<float16> x(std::vector<float16>(256));
  DeviceArray<float> out(counting(32));
  const auto report = [&](int wait) {
    return run<ldmatrix_of_a_copy>(
        1, 32, 512, {}, const_argument("x", x), argument("out", out), wait);
  };
  check_finds(report(0), simt::Fault::copy_in_flight, "ldmatrix of a copy");
  check_finds(report(1), simt::Fault::race, "ldmatrix of a copy");
  check_passes(report(2));
}

// ---------------------------------------------------------------------------------------------
// Reports and options

__global__ void one_bad_block(Global<float> x) {
  if (blockIdx.x == 5 && threadIdx.x < 16) __syncthreads();  //! one bad block
  x[blockIdx.x] = static_cast<float>(blockIdx.x);
}

TEST_CASE("a block that hangs is given up, the others run") {
  for (const int workers : {1, 3}) {
    DeviceArray<float> x(std::vector<float>(16, -1.0f));
    simt::Options options;
    options.workers = workers;
    const simt::Report report = run<one_bad_block>(16, 1, 0, options, argument("x", x));
    check_passes(report);  // one thread a block: nobody is missing
    const simt::Report bad = run<one_bad_block>(16, 32, 0, options, argument("x", x));
    check_finds(bad, simt::Fault::barrier, "one bad block");
    CHECK(bad.violations[0].block == 5);
    CHECK(bad.blocks_run == 16);
    CHECK(x.values()[15] == 15);
  }
}

__global__ void count_up(Global<float> x) { x[blockIdx.x] += 1; }

TEST_CASE("a chosen subset of blocks") {
  DeviceArray<float> x(std::vector<float>(100, 0.0f));
  simt::Options options;
  options.blocks = {3, 99, 42};
  options.per_block = true;
  const simt::Report report = run<count_up>(100, 1, 0, options, argument("x", x));
  CHECK(report.blocks_run == 3);
  CHECK(report.blocks_in_grid == 100);
  REQUIRE(report.per_block.size() == 3);
  CHECK(report.per_block[1].global_store_bytes == 4);
  CHECK(report.total.global_store_bytes == 12);
  for (int i = 0; i < 100; ++i)
    CHECK(x.values()[std::size_t(i)] == (i == 3 || i == 42 || i == 99 ? 1 : 0));
}

TEST_CASE("outside a session faults are thrown") {
  DeviceArray<float> x(counting(512));
  CHECK_THROWS_AS(launch<write_beyond>(dim3(1), dim3(64), 0, argument("x", x)), simt::KernelFault);
  CHECK_NOTHROW(launch<write_within>(dim3(1), dim3(64), 0, argument("x", x)));
}

TEST_CASE("what no GPU launches is refused") {
  DeviceArray<float> x(counting(512));
  const auto launch_with = [&](dim3 grid, dim3 block, std::size_t bytes) {
    launch<count_up>(grid, block, bytes, argument("x", x));
  };
  CHECK_NOTHROW(launch_with(dim3(2, 2), dim3(1024), 227 * 1024));
  CHECK_THROWS(launch_with(dim3(1, 65536), dim3(1), 0));
  CHECK_THROWS(launch_with(dim3(1, 1, 65536), dim3(1), 0));
  CHECK_THROWS(launch_with(dim3(0), dim3(1), 0));
  CHECK_THROWS(launch_with(dim3(1), dim3(1025), 0));
  CHECK_THROWS(launch_with(dim3(1), dim3(1), 228 * 1024));
}

__global__ void throws(Global<float>) {
  if (threadIdx.x == 3) throw std::logic_error("from a kernel");
}

TEST_CASE("an exception in a thread comes out of the launch") {
  DeviceArray<float> x(counting(512));
  CHECK_THROWS_AS(launch<throws>(dim3(1), dim3(64), 0, argument("x", x)), std::logic_error);
}

__global__ void many_faults(Global<float> x) {
  // clang-format off
  x[-1] = 0;
  x[-2] = 0;
  x[-3] = 0;
  x[-4] = 0;
  x[-5] = 0;
  x[-6] = 0;
  x[-7] = 0;
  x[-8] = 0;
  x[-9] = 0;
  x[-10] = 0;
  x[-11] = 0;
  x[-12] = 0;
  // clang-format on
}

TEST_CASE("the first ten are printed, the others counted") {
  const simt::Report report = run_one<many_faults>(32);
  CHECK(report.violation_count == 12 * 32);
  CHECK(report.violations.size() == 12);
  const std::string text = report.text();
  INFO(text);
  CHECK(text.find("  10. ") != std::string::npos);
  CHECK(text.find("  11. ") == std::string::npos);
  CHECK(text.find("and 2 more") != std::string::npos);
}

}  // namespace
}  // namespace fa::test
