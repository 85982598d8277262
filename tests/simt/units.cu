// The vocabulary of common/cuda, word by word: what each does, on a GPU and in the emulator. nvcc
// makes one program of this file, a C++ compiler another; both must pass.
#include "tests/catch.hpp"
#include "tests/simt/device_array.hpp"

namespace fa::test {
inline namespace FA_TARGET {

// ---------------------------------------------------------------------------------------------
// Indices, barriers, shared memory

__global__ void write_indices(Global<float> out) {
  const int t = threadIdx.x + blockDim.x * threadIdx.y;
  const int b = blockIdx.x + gridDim.x * blockIdx.y;
  out[b * 12 + t] = static_cast<float>(1000 * b + t);
}

TEST_CASE("threads and blocks know their place") {
  DeviceArray<float> out(std::vector<float>(6 * 12, -1.0f));
  launch<write_indices>(dim3(3, 2), dim3(4, 3), 0, argument("out", out));
  const std::vector<float> got = out.values();
  for (int b = 0; b < 6; ++b)
    for (int t = 0; t < 12; ++t) CHECK(got[std::size_t(b * 12 + t)] == float(1000 * b + t));
}

__global__ void reverse(Global<const float> in, Global<float> out) {
  SharedMemory memory = shared_memory();
  const SharedTile<float, 65> tile = memory.tile<float, 65>("tile", 2);
  const Shared<float> row = memory.array<float>("row", 128);
  const int t = threadIdx.x;
  tile[t / 64][t % 64] = in[t];
  __syncthreads();
  row[t] = tile[1 - t / 64][63 - t % 64];
  __syncthreads();
  out[t] = row[t];
}

TEST_CASE("a block reverses an array through shared memory") {
  DeviceArray<float> in(counting(128)), out(std::vector<float>(128, -1.0f));
  launch<reverse>(dim3(1),
                  dim3(128),
                  tile_bytes<float, 65>(2) + tile_bytes<float, 1>(128),
                  const_argument("in", in),
                  argument("out", out));
  for (int t = 0; t < 128; ++t) CHECK(out.values()[std::size_t(t)] == float(127 - t));
}

__global__ void copy_vectors(Global<const float> in, Global<float> out) {
  SharedMemory memory = shared_memory();
  const Shared<float> row = memory.array<float>("row", 128);
  const int t = threadIdx.x;
  store_vector(row + t * 4, load_vector<float4>(in + t * 4));
  __syncwarp();
  float4 v = load_vector<float4>(row + (31 - t) * 4);
  v.x += 0.5f;
  store_vector(out + t * 4, v);
}

TEST_CASE("vectors of four floats") {
  DeviceArray<float> in(counting(128)), out(std::vector<float>(128, -1.0f));
  launch<copy_vectors>(
      dim3(1), dim3(32), tile_bytes<float, 1>(128), const_argument("in", in), argument("out", out));
  for (int i = 0; i < 128; ++i) {
    const float expected = float((31 - i / 4) * 4 + i % 4) + (i % 4 == 0 ? 0.5f : 0.0f);
    CHECK(out.values()[std::size_t(i)] == expected);
  }
}

// ---------------------------------------------------------------------------------------------
// Shuffles and votes

__global__ void shuffle_all_ways(Global<float> out) {
  const int t = threadIdx.x;
  const float mine = static_cast<float>(t);
  out[t] = __shfl_sync(kAllLanes, mine, 5);
  out[32 + t] = __shfl_sync(kAllLanes, mine, t + 3, 8);
  out[64 + t] = __shfl_xor_sync(kAllLanes, mine, 6);
  out[96 + t] = __shfl_up_sync(kAllLanes, mine, 3);
  out[128 + t] = __shfl_down_sync(kAllLanes, mine, 3, 16);
  out[160 + t] = t < 8 ? __shfl_xor_sync(0xff, mine, 1) : -mine;
}

TEST_CASE("shuffles") {
  DeviceArray<float> out(std::vector<float>(192, -1.0f));
  launch<shuffle_all_ways>(dim3(1), dim3(32), 0, argument("out", out));
  const std::vector<float> got = out.values();
  for (int t = 0; t < 32; ++t) {
    const auto at = [&](int k) { return static_cast<int>(got[std::size_t(k * 32 + t)]); };
    CHECK(at(0) == 5);
    CHECK(at(1) == t / 8 * 8 + (t + 3) % 8);
    CHECK(at(2) == (t ^ 6));
    CHECK(at(3) == (t < 3 ? t : t - 3));
    CHECK(at(4) == (t % 16 + 3 < 16 ? t + 3 : t));
    CHECK(at(5) == (t < 8 ? (t ^ 1) : -t));
  }
}

__global__ void vote_all_ways(Global<float> out) {
  const int t = threadIdx.x, lane = t % 32;
  out[t] = static_cast<float>(__any_sync(kAllLanes, lane == 3 && t >= 32));
  out[64 + t] = static_cast<float>(__all_sync(kAllLanes, t < 32 || lane != 3));
  const unsigned ballot = __ballot_sync(kAllLanes, lane % 4 == 1);
  out[128 + t] = ballot == 0x22222222u ? 1.0f : 0.0f;
}

TEST_CASE("votes") {
  DeviceArray<float> out(std::vector<float>(192, -1.0f));
  launch<vote_all_ways>(dim3(1), dim3(64), 0, argument("out", out));
  const std::vector<float> got = out.values();
  for (int t = 0; t < 64; ++t) {
    CHECK((got[std::size_t(t)] != 0) == (t >= 32));
    CHECK((got[std::size_t(64 + t)] != 0) == (t < 32));
    CHECK(got[std::size_t(128 + t)] == 1);
  }
}

// ---------------------------------------------------------------------------------------------
// Tensor cores. The tables are those of the PTX ISA, written out: not derived from the code.

/// "Matrix fragments for mma.m16n8k16", A of 16 bits: element a_i of a lane is A[row][column].
int a_row(int lane, int i) {
  const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
  return upper ? lane >> 2 : (lane >> 2) + 8;
}
int a_column(int lane, int i) {
  return i < 4 ? (lane % 4) * 2 + (i & 1) : (lane % 4) * 2 + (i & 1) + 8;
}
/// b_i is B[row][column].
int b_row(int lane, int i) {
  return i < 2 ? (lane % 4) * 2 + (i & 1) : (lane % 4) * 2 + (i & 1) + 8;
}
int b_column(int lane) { return lane >> 2; }
/// c_i is C[row][column].
int c_row(int lane, int i) { return i < 2 ? lane >> 2 : (lane >> 2) + 8; }
int c_column(int lane, int i) { return (lane % 4) * 2 + (i & 1); }

template <class T>
__global__ void multiply_fragments(Global<const std::uint32_t> a,
                                   Global<const std::uint32_t> b,
                                   Global<const float> c,
                                   Global<float> d) {
  const int t = threadIdx.x;
  std::uint32_t ra[4], rb[2];
  float rc[4], rd[4];
  for (int i = 0; i < 4; ++i) ra[i] = a[t * 4 + i];
  for (int i = 0; i < 2; ++i) rb[i] = b[t * 2 + i];
  for (int i = 0; i < 4; ++i) rc[i] = c[t * 4 + i];
  mma_m16n8k16<T>(rd, ra, rb, rc);
  for (int i = 0; i < 4; ++i) d[t * 4 + i] = rd[i];
}

/// Fragments from matrices by the tables, multiplied by the machine, read back by the tables.
template <class T>
std::vector<float> product(const std::vector<float>& A,    // [16, 16]
                           const std::vector<float>& B,    // [16, 8]
                           const std::vector<float>& C) {  // [16, 8]
  std::vector<std::uint32_t> a(32 * 4, 0), b(32 * 2, 0);
  std::vector<float> c(32 * 4);
  const auto bits = [](float x) { return std::uint32_t{T(x).bits}; };
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i)
      a[std::size_t(lane * 4 + i / 2)] |=
          bits(A[std::size_t(a_row(lane, i) * 16 + a_column(lane, i))]) << (i % 2 * 16);
    for (int i = 0; i < 4; ++i)
      b[std::size_t(lane * 2 + i / 2)] |= bits(B[std::size_t(b_row(lane, i) * 8 + b_column(lane))])
                                          << (i % 2 * 16);
    for (int i = 0; i < 4; ++i)
      c[std::size_t(lane * 4 + i)] = C[std::size_t(c_row(lane, i) * 8 + c_column(lane, i))];
  }
  DeviceArray<std::uint32_t> da(a), db(b);
  DeviceArray<float> dc(c), dd(std::vector<float>(128, -1.0f));
  launch<multiply_fragments<T>>(dim3(1),
                                dim3(32),
                                0,
                                const_argument("a", da),
                                const_argument("b", db),
                                const_argument("c", dc),
                                argument("d", dd));
  const std::vector<float> d = dd.values();
  std::vector<float> D(16 * 8);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      D[std::size_t(c_row(lane, i) * 8 + c_column(lane, i))] = d[std::size_t(lane * 4 + i)];
  return D;
}

template <class T>
void check_products() {
  const std::vector<float> zero(16 * 8, 0.0f);
  // One-hot A: D has row k of B in row i, nothing elsewhere.
  std::vector<float> B(16 * 8), C(16 * 8);
  for (std::size_t e = 0; e < 128; ++e) B[e] = float(e + 1), C[e] = float(e) * 0.25f - 7;
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k) {
      std::vector<float> A(16 * 16, 0.0f);
      A[std::size_t(i * 16 + k)] = 1;
      const std::vector<float> D = product<T>(A, B, C);
      int wrong = 0;
      for (int r = 0; r < 16; ++r)
        for (int j = 0; j < 8; ++j)
          wrong += D[std::size_t(r * 8 + j)] !=
                   (r == i ? B[std::size_t(k * 8 + j)] : 0.0f) + C[std::size_t(r * 8 + j)];
      INFO("A is 1 at " << i << ", " << k);
      REQUIRE(wrong == 0);
    }
  // One-hot B: D has column k of A in column j.
  std::vector<float> A(16 * 16);
  for (std::size_t e = 0; e < 256; ++e) A[e] = float(e + 1);
  for (int k = 0; k < 16; ++k)
    for (int j = 0; j < 8; ++j) {
      std::vector<float> one(16 * 8, 0.0f);
      one[std::size_t(k * 8 + j)] = 1;
      const std::vector<float> D = product<T>(A, one, zero);
      int wrong = 0;
      for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 8; ++c)
          wrong += D[std::size_t(r * 8 + c)] != (c == j ? A[std::size_t(r * 16 + k)] : 0.0f);
      INFO("B is 1 at " << k << ", " << j);
      REQUIRE(wrong == 0);
    }
}

TEST_CASE("mma.m16n8k16 of float16 fragments") { check_products<float16>(); }
TEST_CASE("mma.m16n8k16 of bfloat16 fragments") { check_products<bfloat16>(); }

template <int matrices, bool transposed>
__global__ void load_matrices(Global<const float16> in, Global<std::uint32_t> out) {
  SharedMemory memory = shared_memory();
  // Rows of 16 bytes, 48 bytes apart; matrix m has rows 8m to 8m + 7, and lane l names row l.
  const SharedTile<float16, 24> tile = memory.tile<float16, 24>("tile", 32);
  const int t = threadIdx.x;
  for (int x = 0; x < 8; ++x) tile[t][x] = in[t * 8 + x];
  __syncwarp();
  std::uint32_t r[matrices];
  if constexpr (matrices == 2 && !transposed) ldmatrix_x2(r, tile[t] + 0);
  if constexpr (matrices == 2 && transposed) ldmatrix_x2_trans(r, tile[t] + 0);
  if constexpr (matrices == 4 && !transposed) ldmatrix_x4(r, tile[t] + 0);
  if constexpr (matrices == 4 && transposed) ldmatrix_x4_trans(r, tile[t] + 0);
  for (int m = 0; m < matrices; ++m) out[t * matrices + m] = r[m];
}

/// PTX ISA, "ldmatrix": fragment r of thread T holds elements 2·(T % 4) and the next of row T / 4;
/// .trans loads the matrix in column-major format. Each element says which one it is.
template <int matrices, bool transposed>
void check_ldmatrix() {
  std::vector<float16> in(32 * 8);
  for (std::size_t e = 0; e < in.size(); ++e) in[e].bits = static_cast<std::uint16_t>(e);
  DeviceArray<float16> device_in(in);
  DeviceArray<std::uint32_t> out(std::vector<std::uint32_t>(32 * matrices, ~0u));
  launch<load_matrices<matrices, transposed>>(dim3(1),
                                              dim3(32),
                                              tile_bytes<float16, 24>(32),
                                              const_argument("in", device_in),
                                              argument("out", out));
  const std::vector<std::uint32_t> got = out.values();
  for (unsigned t = 0; t < 32; ++t)
    for (unsigned m = 0; m < matrices; ++m) {
      const unsigned row = t / 4, column = t % 4 * 2;
      const auto element = [&](unsigned i, unsigned x) {
        return transposed ? (8 * m + x) * 8 + i : (8 * m + i) * 8 + x;
      };
      CHECK(got[t * matrices + m] == (element(row, column) | element(row, column + 1) << 16));
    }
}

TEST_CASE("ldmatrix") {
  check_ldmatrix<2, false>();
  check_ldmatrix<2, true>();
  check_ldmatrix<4, false>();
  check_ldmatrix<4, true>();
}

// ---------------------------------------------------------------------------------------------
// Asynchronous copies

/// Sums tiles of 32 · 4 floats, the next on its way while one is summed; `n` need not be a
/// multiple.
__global__ void sum_double_buffered(Global<const float> in, Global<float> out, int n) {
  SharedMemory memory = shared_memory();
  const SharedTile<float, 128> tile = memory.tile<float, 128>("tile", 2);
  const int t = threadIdx.x, tiles = (n + 127) / 128;
  const auto fetch = [&](int k) {
    const int first = k * 128 + t * 4, left = n - first;
    const int elements = left < 0 ? 0 : left < 4 ? left : 4;
    cp_async_16(tile[k % 2] + t * 4, in + first, elements * 4);
    cp_async_commit();
  };
  fetch(0);
  float sum = 0;
  for (int k = 0; k < tiles; ++k) {
    if (k + 1 < tiles)
      fetch(k + 1);
    else
      cp_async_commit();  // an empty group, so that the wait below counts the same
    cp_async_wait<1>();
    __syncthreads();
    for (int x = 0; x < 4; ++x) sum += tile[k % 2][(t * 4 + x + 64) % 128];
    __syncthreads();
  }
  out[t] = sum;
}

void check_double_buffer() {
  for (const int n : {1, 4, 127, 128, 129, 515, 640}) {
    DeviceArray<float> in(counting(n)), out(std::vector<float>(32, -1.0f));
    launch<sum_double_buffered>(dim3(1),
                                dim3(32),
                                tile_bytes<float, 128>(2),
                                const_argument("in", in),
                                argument("out", out),
                                n);
    double sum = 0;
    for (const float x : out.values()) sum += x;
    CHECK(sum == 0.5 * n * (n - 1));
  }
}

#ifdef __CUDACC__
TEST_CASE("asynchronous copies, double-buffered") { check_double_buffer(); }
#else
TEST_CASE("asynchronous copies, double-buffered, late and early") {
  for (const auto copies : {fa::simt::Copies::late, fa::simt::Copies::early}) {
    fa::simt::Options options;
    options.copies = copies;
    fa::simt::Session session(options);
    check_double_buffer();
    INFO(session.report().text());
    CHECK(session.report().ok());
  }
}
#endif

}  // namespace FA_TARGET
}  // namespace fa::test
