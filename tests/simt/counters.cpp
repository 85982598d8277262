// What the emulator counts, on patterns that textbooks draw: each number here is worked out by
// hand.
#include "tests/catch.hpp"
#include "tests/simt/device_array.hpp"

namespace fa::test {
namespace {

template <auto kernel, class... Arguments>
simt::Counters count(unsigned threads, std::size_t shared_bytes, Arguments&&... arguments) {
  simt::Session session;
  launch<kernel>(dim3(1), dim3(threads), shared_bytes, std::forward<Arguments>(arguments)...);
  INFO(session.report().text());
  CHECK(session.report().ok());
  return session.report().total;
}

// ---------------------------------------------------------------------------------------------
// Global memory: 32-byte sectors

__global__ void strided_load(Global<const float> in, Global<float> out, int stride, int first) {
  const float v = in[first + threadIdx.x * stride];
  if (v < 0) out[0] = v;
}

TEST_CASE("sectors of a warp's loads") {
  DeviceArray<float> in(counting(2048)), out(counting(1));
  const auto sectors = [&](int stride, int first, unsigned threads = 32) {
    const simt::Counters c = count<strided_load>(
        threads, 0, const_argument("in", in), argument("out", out), stride, first);
    CHECK(c.global_load_bytes == threads * 4);
    CHECK(c.global_load_requests == (threads + 31) / 32);
    return c.global_load_sectors;
  };
  // The array begins 16 bytes after a sector's start where malloc put it so: start at a sector.
  const int start = (reinterpret_cast<std::uintptr_t>(in.data()) & 15) / 4 == 0 ? 0 : 4;
  CHECK(sectors(1, start) == 4);      // 128 bytes in a row
  CHECK(sectors(1, start + 1) == 5);  // not from a sector's start
  CHECK(sectors(2, start) == 8);      // every second element
  CHECK(sectors(8, start) == 32);     // one element a sector
  CHECK(sectors(32, start) == 32);    // no worse from here on
  CHECK(sectors(0, start) == 1);      // all lanes the same
  CHECK(sectors(1, start, 64) == 8);  // two warps
  CHECK(sectors(1, start, 20) == 3);  // a part of a warp: 80 bytes
}

__global__ void vector_load_and_store(Global<const float> in, Global<float> out) {
  store_vector(out + threadIdx.x * 4, load_vector<float4>(in + threadIdx.x * 4));
}
__global__ void half_load(Global<const float16> in, Global<float> out) {
  out[threadIdx.x] = in[threadIdx.x];
}

TEST_CASE("sectors of vectors and of 16-bit elements") {
  DeviceArray<float> in(counting(128)), out(counting(128));
  const simt::Counters c =
      count<vector_load_and_store>(32, 0, const_argument("in", in), argument("out", out));
  CHECK(c.global_load_bytes == 512);
  CHECK(c.global_load_sectors == 16);
  CHECK(c.global_store_bytes == 512);
  CHECK(c.global_store_sectors == 16);
  DeviceArray<float16> halves(std::vector<float16>(32));
  const simt::Counters h =
      count<half_load>(32, 0, const_argument("in", halves), argument("out", out));
  CHECK(h.global_load_bytes == 64);
  CHECK(h.global_load_sectors == 2);
}

__global__ void tail_load(Global<const float> in, Global<float> out, int n) {
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const int i = k * 32 + threadIdx.x;
    if (i < n) sum += in[i];
    sum += in[threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

TEST_CASE("lanes that go different ways are matched by line and by turn") {
  DeviceArray<float> in(counting(128)), out(counting(32));
  const simt::Counters c =
      count<tail_load>(32, 0, const_argument("in", in), argument("out", out), 72);
  // k = 0, 1: 32 lanes; k = 2: 8 lanes; k = 3: none. And four times all lanes.
  CHECK(c.global_load_requests == 3 + 4);
  CHECK(c.global_load_sectors == 4 + 4 + 1 + 16);
  CHECK(c.global_load_bytes == 72 * 4 + 4 * 128);
}

// ---------------------------------------------------------------------------------------------
// Shared memory: wavefronts and bank conflicts

template <class T>
__global__ void strided_shared(Global<float> out, int n, int stride, int divisor) {
  SharedMemory memory = shared_memory();
  const Shared<T> s = memory.array<T>("s", n);
  for (int i = threadIdx.x; i < n; i += 32) s[i] = T(0.0f);
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x / divisor * stride];
}

/// Of the one strided load (the stores before it are free of conflicts).
template <class T>
std::pair<std::uint64_t, std::uint64_t> load_cycles(int stride, int divisor = 1) {
  const int n = 32 * 33;
  DeviceArray<float> out(counting(32));
  const simt::Counters c =
      count<strided_shared<T>>(32, tile_bytes<T, 1>(n), argument("out", out), n, stride, divisor);
  CHECK(c.shared_load_requests == 1);
  CHECK(c.shared_store_conflicts == 0);
  CHECK(c.shared_store_wavefronts == c.shared_store_requests);
  return {c.shared_load_wavefronts, c.shared_load_conflicts};
}

TEST_CASE("bank conflicts of 4-byte accesses") {
  using Cycles = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(load_cycles<float>(1) == Cycles(1, 0));  // one word a bank
  CHECK(load_cycles<float>(2) == Cycles(2, 1));  // two words in each second bank
  CHECK(load_cycles<float>(4) == Cycles(4, 3));
  CHECK(load_cycles<float>(32) == Cycles(32, 31));   // a column of a tile of 32 columns
  CHECK(load_cycles<float>(33) == Cycles(1, 0));     // … of 33: padded
  CHECK(load_cycles<float>(0) == Cycles(1, 0));      // broadcast
  CHECK(load_cycles<float>(1, 8) == Cycles(1, 0));   // 4 words, each to 8 lanes
  CHECK(load_cycles<float>(32, 8) == Cycles(4, 3));  // the same, but all in one bank
  CHECK(load_cycles<float16>(1) == Cycles(1, 0));    // two lanes a word
  CHECK(load_cycles<float16>(2) == Cycles(1, 0));
  CHECK(load_cycles<float16>(4) == Cycles(2, 1));
}

__global__ void vector_shared(Global<float> out, int stride) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 32 * 36);
  const int t = threadIdx.x;
  store_vector(s + t * stride, float4{1, 2, 3, 4});
  out[t] = load_vector<float4>(s + t * stride).y;
}
__global__ void vector_broadcast(Global<float> out, int lanes) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 32 * 4);
  const int t = threadIdx.x;
  store_vector(s + t * 4, float4{1, 2, 3, 4});
  __syncwarp();
  out[t] = load_vector<float2>(s + t / lanes * 2).y;
}

TEST_CASE("vectors go in parts of a warp") {
  DeviceArray<float> out(counting(32));
  const std::size_t bytes = tile_bytes<float, 1>(32 * 36);
  // 512 bytes in a row: four parts of 8 lanes, each over all banks.
  simt::Counters c = count<vector_shared>(32, bytes, argument("out", out), 4);
  CHECK(c.shared_load_wavefronts == 4);
  CHECK(c.shared_load_conflicts == 0);
  CHECK(c.shared_store_wavefronts == 4);
  // A row of 32 floats each: the 8 lanes of a part in the same 4 banks.
  c = count<vector_shared>(32, bytes, argument("out", out), 32);
  CHECK(c.shared_load_wavefronts == 32);
  CHECK(c.shared_load_conflicts == 28);
  // Rows of 36 floats: padded.
  c = count<vector_shared>(32, bytes, argument("out", out), 36);
  CHECK(c.shared_load_wavefronts == 4);
  CHECK(c.shared_load_conflicts == 0);
  // float2: two parts of 16 lanes.
  c = count<vector_broadcast>(32, bytes, argument("out", out), 1);
  CHECK(c.shared_load_wavefronts == 2);
  CHECK(c.shared_load_conflicts == 0);
}

__global__ void matrix_shared(Global<float> out, int stride) {
  SharedMemory memory = shared_memory();
  const Shared<float16> s = memory.array<float16>("s", 32 * 72);
  const int t = threadIdx.x;
  for (int x = 0; x < 8; ++x) s[t * stride + x] = float16(1.0f);
  __syncwarp();
  std::uint32_t r[4];
  ldmatrix_x4(r, s + t * stride);
  out[t] = static_cast<float>(r[0]);
}

TEST_CASE("ldmatrix takes a cycle a matrix, and more if its rows share banks") {
  DeviceArray<float> out(counting(32));
  const std::size_t bytes = tile_bytes<float16, 1>(32 * 72);
  simt::Counters c = count<matrix_shared>(32, bytes, argument("out", out), 8);
  CHECK(c.ldmatrix_requests == 1);
  CHECK(c.ldmatrix_wavefronts == 4);
  CHECK(c.ldmatrix_conflicts == 0);
  c = count<matrix_shared>(32, bytes, argument("out", out), 64);  // rows of 128 bytes
  CHECK(c.ldmatrix_wavefronts == 32);
  CHECK(c.ldmatrix_conflicts == 28);
  c = count<matrix_shared>(32, bytes, argument("out", out), 72);  // of 144
  CHECK(c.ldmatrix_wavefronts == 4);
}

// ---------------------------------------------------------------------------------------------
// Everything else

__global__ void a_bit_of_all(Global<const float> in, Global<float> out) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 64 * 4);
  const int t = threadIdx.x;
  cp_async_16(s + t * 4, in + t * 4, t < 32 ? 16 : 8);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  float v = s[(t * 4 + 4) % 256] + expf(-1.0f) + exp2f(1.0f);
  v += __shfl_xor_sync(kAllLanes, v, 1);
  if (__any_sync(kAllLanes, v < 0)) v = 0;
  __syncwarp();
  float d[4] = {}, c[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  for (int k = 0; k < 3; ++k) mma_m16n8k16<float16>(d, a, b, c);
  out[t] = v + d[0];
  __syncthreads();
}

TEST_CASE("operations are counted by warp, exponentials by thread, barriers by block") {
  DeviceArray<float> in(counting(256)), out(counting(64));
  const simt::Counters c = count<a_bit_of_all>(
      64, tile_bytes<float, 1>(256), const_argument("in", in), argument("out", out));
  CHECK(c.async_copy_requests == 2);
  CHECK(c.async_copy_bytes == 32 * 16 + 32 * 8);
  CHECK(c.async_copy_sectors == 16 + 16);
  CHECK(c.async_copy_wavefronts == 8);
  CHECK(c.async_copy_conflicts == 0);
  CHECK(c.global_load_bytes == 0);
  CHECK(c.exponentials == 128);
  CHECK(c.shuffles == 2);
  CHECK(c.votes == 2);
  CHECK(c.warp_barriers == 2);
  CHECK(c.mma == 6);
  CHECK(c.block_barriers == 2);
  CHECK(c.text().find("mma") != std::string::npos);
}

__global__ void many_blocks(Global<float> out) {
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 64);
  const int t = threadIdx.x;
  s[t] = expf(0.0f);
  __syncthreads();
  out[blockIdx.x * 64 + t] = s[63 - t];
}

TEST_CASE("counts don't depend on the number of workers, and are the sum over the blocks") {
  DeviceArray<float> out(counting(64 * 50));
  for (const int workers : {1, 4}) {
    simt::Options options;
    options.workers = workers;
    options.per_block = true;
    simt::Session session(options);
    launch<many_blocks>(dim3(50), dim3(64), 256, argument("out", out));
    const simt::Report& report = session.report();
    CHECK(report.ok());
    CHECK(report.total.exponentials == 50 * 64);
    CHECK(report.total.block_barriers == 50);
    CHECK(report.total.global_store_bytes == 50 * 64 * 4);
    REQUIRE(report.per_block.size() == 50);
    for (const simt::Counters& block : report.per_block) CHECK(block.shared_load_wavefronts == 2);
  }
}

}  // namespace
}  // namespace fa::test
