// The vocabulary of common/cuda, word by word: what each does, on a GPU and in the emulator. nvcc
// makes one program of this file, a C++ compiler another; both must pass.
#include "common/cuda/runtime.hpp"
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

__global__ void ask_all(Global<float> out, int asker) {
  const int t = threadIdx.x;
  out[t] = static_cast<float>(__syncthreads_or(t == asker));
}

TEST_CASE("a barrier tells all threads of the block whether one said yes") {
  DeviceArray<float> out(std::vector<float>(96, -1.0f));
  for (const int asker : {0, 70, 96}) {  // the last isn't there
    launch<ask_all>(dim3(1), dim3(96), 0, argument("out", out), asker);
    for (const float each : out.values()) CHECK((each != 0) == (asker < 96));
  }
}

/// Two pages of 16 rows. Each thread writes, by its Place and steps from there, elements that say which
/// they are; then the tile goes out as it lies.
__global__ void write_by_place(Global<float> out) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 64> tile = memory.tile<float16, 64>("tile", 2 * 2 * 16);
  const int t = threadIdx.x, i = t / 4, x = t % 4 * 2;  // rows 0 to 7, columns 0 to 7
  const Place<float16, 16> place = Place<float16, 16>(tile, i, x).behind(2 * 16);
  for (int down = 0; down < 16; down += 8)
    for (int right = 0; right < 128; right += 8) {
      const auto first = static_cast<float>((i + down) * 128 + x + right);
      store_vector(place.at(down, right), round_pair<float16>(first, first + 1));
    }
  __syncthreads();
  for (int e = t; e < 2 * 16 * 64; e += 32)
    out[e] = static_cast<float>(float16(tile[2 * 16 + e / 64][e % 64]));
}

TEST_CASE("a place's elements lie in swizzled pages") {
  DeviceArray<float> out(std::vector<float>(2 * 16 * 64, -1.0f));
  launch<write_by_place>(
      dim3(1), dim3(32), tile_bytes<float16, 64>(2 * 2 * 16), argument("out", out));
  const std::vector<float> got = out.values();
  for (int i = 0; i < 16; ++i)
    for (int x = 0; x < 128; ++x) {
      INFO("row " << i << ", column " << x);
      const int lies_at = (x / 64 * 16 + i) * 64 + (x % 64 / 8 ^ i % 8) * 8 + x % 8;
      CHECK(got[std::size_t(lies_at)] == float(i * 128 + x));
    }
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

template <bool transposed>
__global__ void load_two_operands(Global<const float16> in, Global<std::uint32_t> out) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 8> tile = memory.tile<float16, 8>("tile", 32);
  const int t = threadIdx.x;
  for (int x = 0; x < 8; ++x) tile[t][x] = in[t * 8 + x];
  __syncwarp();
  std::uint32_t all[4], first[2], second[2];
  if constexpr (transposed) {
    ldmatrix_x4_trans(all, tile[t] + 0);
    ldmatrix_x4_trans(first, second, tile[t] + 0);
  } else {
    ldmatrix_x4(all, tile[t] + 0);
    ldmatrix_x4(first, second, tile[t] + 0);
  }
  for (int m = 0; m < 2; ++m) {
    out[t * 4 + m] = all[m] ^ first[m];
    out[t * 4 + 2 + m] = all[2 + m] ^ second[m];
  }
}

TEST_CASE("ldmatrix of two operands: the first two matrices, and the others") {
  std::vector<float16> in(32 * 8);
  for (std::size_t e = 0; e < in.size(); ++e) in[e].bits = static_cast<std::uint16_t>(e);
  DeviceArray<float16> device_in(in);
  DeviceArray<std::uint32_t> out(std::vector<std::uint32_t>(128, ~0u));
  const auto check = [&](auto run) {
    run();
    for (const std::uint32_t different : out.values()) CHECK(different == 0);
  };
  check([&] {
    launch<load_two_operands<false>>(
        dim3(1), dim3(32), 512, const_argument("in", device_in), argument("out", out));
  });
  check([&] {
    launch<load_two_operands<true>>(
        dim3(1), dim3(32), 512, const_argument("in", device_in), argument("out", out));
  });
}

// ---------------------------------------------------------------------------------------------
// Registers of two 16-bit numbers, and 2^x

template <class T>
__global__ void make_pairs(Global<const float> in, Global<std::uint32_t> out) {
  const int t = threadIdx.x;
  const float low = in[2 * t], high = in[2 * t + 1];
  out[2 * t] = round_pair<T>(low, high);
  out[2 * t + 1] = pair(T(low), T(high));
}

/// Both are the types' own rounding, to nearest and to even: ties, subnormals, what is too large.
template <class T>
void check_pairs() {
  std::vector<float> in = counting(64);
  const float ties = std::is_same_v<T, float16> ? 0x1p-11f : 0x1p-8f;
  const float special[] = {0.0f,      -0.0f,      1 + ties,     1 + 3 * ties, -1 - ties,
                           65504.0f,  65519.0f,   65520.0f,     -65536.0f,    0x1p-24f,
                           0x1p-25f,  0x1.8p-25f, 0x1p-130f,    3.4028e38f,   INFINITY,
                           -INFINITY, 0x1p-14f,   0x1.fffp-15f, 1.0f / 3.0f,  -2.0f / 3.0f};
  std::copy(std::begin(special), std::end(special), in.begin());
  DeviceArray<float> device_in(in);
  DeviceArray<std::uint32_t> out(std::vector<std::uint32_t>(64, 0xabababab));
  launch<make_pairs<T>>(
      dim3(1), dim3(32), 0, const_argument("in", device_in), argument("out", out));
  const std::vector<std::uint32_t> got = out.values();
  for (std::size_t t = 0; t < 32; ++t) {
    const std::uint32_t low = T(in[2 * t]).bits, high = T(in[2 * t + 1]).bits;
    INFO(in[2 * t] << " and " << in[2 * t + 1]);
    CHECK(got[2 * t] == (low | high << 16));
    CHECK(got[2 * t + 1] == (low | high << 16));
  }
}

TEST_CASE("two numbers rounded into a register") {
  check_pairs<float16>();
  check_pairs<bfloat16>();
}

__global__ void approximate_exp2(Global<const float> in, Global<float> out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  out[t] = exp2_approx(in[t]);
}

TEST_CASE("2^x, approximately") {
  std::vector<float> in(1024);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.25f - 128.0f;
  for (std::size_t i = 512; i < 768; ++i) in[i] = static_cast<float>(i - 512) / -37.0f;
  in[1020] = 0, in[1021] = -INFINITY, in[1022] = INFINITY, in[1023] = -0x1p-30f;
  DeviceArray<float> device_in(in), out(std::vector<float>(1024, -1.0f));
  launch<approximate_exp2>(
      dim3(8), dim3(128), 0, const_argument("in", device_in), argument("out", out));
  const std::vector<float> got = out.values();
  for (std::size_t i = 0; i < in.size(); ++i) {
    INFO("2^" << in[i]);
    const double exact = std::exp2(static_cast<double>(in[i]));
    if (in[i] < -126)
      CHECK(got[i] == 0);
    else if (exact > 3.4e38)
      CHECK(got[i] == INFINITY);
    else
      CHECK(std::abs(got[i] - exact) <= 0x1p-22 * exact);
  }
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

/// With copies that land late and, in the emulator, with copies that land early.
template <class F>
void late_and_early(F check) {
#ifdef __CUDACC__
  check();
#else
  for (const auto copies : {fa::simt::Copies::late, fa::simt::Copies::early}) {
    fa::simt::Options options;
    options.copies = copies;
    fa::simt::Session session(options);
    check();
    INFO(session.report().text());
    CHECK(session.report().ok());
  }
#endif
}

TEST_CASE("asynchronous copies, double-buffered, late and early") {
  late_and_early(check_double_buffer);
}

// ---------------------------------------------------------------------------------------------
// mbarriers, and copies of tiles by TMA

/// Says so where it isn't.
bool is_hopper() {
#ifdef __CUDACC__
  const std::string lack = cuda::gpu().lacks(90);
  if (!lack.empty()) WARN("skipped: needs " << lack);
  return lack.empty();
#else
  return true;
#endif
}

/// Each warp in turn adds to an array; an mbarrier a turn tells the next.
__global__ void take_turns(Global<float> out) {
  SharedMemory memory = shared_memory();
  const Shared<Mbarrier> turn = memory.array<Mbarrier>("turn", 4);
  const Shared<float> s = memory.array<float>("s", 32);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < 4) mbarrier_init(turn + threadIdx.x, threadIdx.x % 2 ? 1 : 32);
  __syncthreads();
  for (int round = 0; round < 3; ++round) {
    if (warp > 0 || round > 0)
      mbarrier_wait(turn + (warp + 3) % 4, (round + (warp + 3) / 4 + 1) % 2);
    if (warp + round == 0)
      s[lane] = static_cast<float>(lane);
    else
      s[lane ^ 1] = s[lane ^ 1] * 2 + static_cast<float>(warp);
    if (warp % 2 == 0) {
      mbarrier_arrive(turn + warp);  // all lanes
    } else {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(turn + warp);
    }
  }
  if (warp == 3) out[lane] = s[lane];
}

TEST_CASE("warps take turns at mbarriers") {
  if (!is_hopper()) return;
  late_and_early([] {
    DeviceArray<float> out(std::vector<float>(32, -1.0f));
    launch<take_turns>(dim3(1), dim3(128), 256, argument("out", out));
    for (int lane = 0; lane < 32; ++lane) {
      float expected = static_cast<float>(lane);
      for (int turn = 1; turn < 12; ++turn) expected = expected * 2 + static_cast<float>(turn % 4);
      CHECK(out.values()[std::size_t(lane)] == expected);
    }
  });
}

/// The last of the warps to arrive adds up what all wrote.
__global__ void last_adds_up(Global<float> out, int rounds) {
  SharedMemory memory = shared_memory();
  const Shared<int> arrived = memory.array<int>("arrived", 1);
  const Shared<float> s = memory.array<float>("s", 128);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) arrived[0] = 0;
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    s[threadIdx.x] = static_cast<float>(threadIdx.x + round);
    __syncwarp();
    int before = 0;
    if (lane == 0) before = arrive_at(arrived);
    before = __shfl_sync(kAllLanes, before, 0);
    __syncwarp();
    if (before == 4 * round + 3)
      out[32 * round + lane] = s[lane] + s[lane + 32] + s[lane + 64] + s[lane + 96];
    __syncthreads();
  }
  if (warp == 0) out[32 * rounds + lane] = static_cast<float>(arrived[0]);
}

TEST_CASE("the last to arrive at a counter knows what the others did") {
  late_and_early([] {
    DeviceArray<float> out(std::vector<float>(4 * 32, -1.0f));
    launch<last_adds_up>(dim3(1), dim3(128), 1024, argument("out", out), 3);
    const std::vector<float> got = out.values();
    for (int round = 0; round < 3; ++round)
      for (int lane = 0; lane < 32; ++lane)
        CHECK(got[std::size_t(32 * round + lane)] == float(4 * (lane + round) + 192));
    for (int lane = 0; lane < 32; ++lane) CHECK(got[std::size_t(96 + lane)] == 12);
  });
}

/// One box, and the shared memory that it landed in, bit by bit.
template <class T>
__global__ void fetch_box(const __grid_constant__ TileMap<const T> map,
                          Global<std::uint32_t> out,  // [rows · pages, 32]
                          int rows,
                          int pages,
                          int row,
                          int head,
                          int batch) {
  SharedMemory memory = shared_memory();
  const SharedTile<T, 64> tile = memory.tile<T, 64>("tile", rows * pages);
  const Shared<Mbarrier> done = memory.array<Mbarrier>("done", 1);
  if (threadIdx.x == 0) {
    mbarrier_init(done, 1);
    mbarrier_arrive_expect(done, rows * pages * 128);
    tma_load(tile, map, row, head, batch, done);
  }
  __syncthreads();
  mbarrier_wait(done, 0);
  for (int i = threadIdx.x; i < rows * pages; i += blockDim.x)
    for (int x = 0; x < 32; ++x) out[i * 32 + x] = load_vector<std::uint32_t>(tile[i] + 2 * x);
}

template <class T>
void check_boxes(int d, int rows) {
  // [B 2, N 37, H 3, d]: rows of a head lie apart, and N is no multiple of a box's rows.
  const int B = 2, H = 3, N = 37, pages = d / 64;
  std::vector<T> x(std::size_t(B * N * H * d));
  for (std::size_t e = 0; e < x.size(); ++e) x[e].bits = static_cast<std::uint16_t>(e * 40503 + 1);
  DeviceArray<T> device_x(x);
  const Tensor<const T> X{device_x.data(), B, H, N, d, N * H * d, d, H * d};
  for (const auto& [row, head, batch] :
       {std::tuple{0, 0, 0}, {16, 1, 0}, {32, 2, 1}, {3, 0, 1}, {40, 1, 1}, {-5, 2, 0}}) {
    DeviceArray<std::uint32_t> out(
        std::vector<std::uint32_t>(std::size_t(rows * pages * 32), 0xabababab));
    launch<fetch_box<T>>(dim3(1),
                         dim3(64),
                         tile_bytes<T, 64>(rows * pages) + tile_bytes<Mbarrier, 1>(1),
                         tile_map("X", X, rows, d),
                         argument("out", out),
                         rows,
                         pages,
                         row,
                         head,
                         batch);
    const std::vector<std::uint32_t> got = out.values();
    int wrong = 0;
    for (int page = 0; page < pages; ++page)
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < 64; ++c) {
          const int i = row + r, at = (c / 8 ^ (r & 7)) * 8 + c % 8;
          const std::size_t e = std::size_t(((batch * N + i) * H + head) * d + page * 64 + c);
          const std::uint32_t word = got[std::size_t((page * rows + r) * 32 + at / 2)];
          const std::uint32_t bits = at % 2 ? word >> 16 : word & 0xffff;
          wrong += bits != (0 <= i && i < N ? x[e].bits : 0u);
        }
    INFO("d " << d << ", " << rows << " rows from " << row << ", head " << head << " of item "
              << batch);
    CHECK(wrong == 0);
  }
}

TEST_CASE("boxes copied by TMA land in swizzled pages, and rows that aren't there are 0") {
  if (!is_hopper()) return;
  late_and_early([] {
    check_boxes<float16>(64, 16);
    check_boxes<float16>(128, 64);
    check_boxes<bfloat16>(64, 64);
    check_boxes<bfloat16>(128, 8);
    check_boxes<bfloat16>(256, 32);
  });
}

TEST_CASE("boxes that TMA can't copy are refused") {
  std::vector<float16> x(4096);
  const auto map = [&](const float16* data, Index d, Index row_stride, int rows, int columns) {
    tile_map("X", Tensor<const float16>{data, 1, 1, 16, d, 0, 0, row_stride}, rows, columns);
  };
  CHECK_THROWS_AS(map(x.data(), 64, 64, 16, 96), std::invalid_argument);
  CHECK_THROWS_AS(map(x.data(), 80, 80, 16, 128), std::invalid_argument);
  CHECK_THROWS_AS(map(x.data(), 64, 64, 12, 64), std::invalid_argument);
  CHECK_THROWS_AS(map(x.data(), 64, 64, 264, 64), std::invalid_argument);
  CHECK_THROWS_AS(map(x.data(), 64, 68, 16, 64), std::invalid_argument);
  CHECK_THROWS_AS(map(x.data() + 1, 64, 64, 16, 64), std::invalid_argument);
  const auto map_for_stores = [&](Index row_stride, int rows, int columns) {
    tile_map("O", Tensor<float16>{x.data(), 1, 1, 16, 128, 0, 0, row_stride}, rows, columns);
  };
  CHECK_THROWS_AS(map_for_stores(128, 16, 64),
                  std::invalid_argument);  // boxes, not pages, of columns
  CHECK_THROWS_AS(map_for_stores(132, 16, 128), std::invalid_argument);
  CHECK_THROWS_AS(map_for_stores(128, 12, 128), std::invalid_argument);
}

/// Bits that say which element this is.
template <class T>
FA_HOST_DEVICE T marked(int batch, int head, int row, int column) {
  T result;
  result.bits =
      static_cast<std::uint16_t>(((batch * 7 + head) * 1021 + row) * 521 + column * 3 + 1);
  return result;
}

/// Every warp has `rows` rows of a head, from first + … on, and a tile of pages of its own. It writes
/// them for each head in turn, one that isn't there among them, and stores them.
template <class T, int D, int rows>
__global__ void store_pages(const __grid_constant__ TileMap<T> map, int first, int heads) {
  constexpr int pages = D / 64;
  SharedMemory memory = shared_memory();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int batch = static_cast<int>(blockIdx.y);  // and an item that isn't there
  const SharedTile<T, 64> tile = memory.tile<T, 64>("tile", 2 * pages * rows) + warp * pages * rows;
  const int row = first + (static_cast<int>(blockIdx.x) * 2 + warp) * rows;
  for (int head = 0; head <= heads; ++head) {
    for (int page = 0; page < pages; ++page) {
      for (int e = lane; e < rows * 64; e += 32) {
        const int i = e / 64, x = e % 64;
        tile[page * rows + i][(x / 8 ^ i % 8) * 8 + x % 8] =
            marked<T>(batch, head, row + i, page * 64 + x);
      }
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) tma_store(map, tile + page * rows, page, row, head, batch);
    }
    if (lane == 0) {
      tma_store(map, tile, pages, row, head, batch);  // a page that isn't there
      tma_store_wait();
    }
    __syncwarp();
  }
}

/// O [B 2, N, H 3, D] or [B 2, H 3, N, D], with `gap` elements behind every row, in an array that goes
/// on before and behind it.
template <class T, int D, int rows>
void check_stores(int N, int first, int gap, bool heads_in_rows) {
  const int B = 2, H = 3, before = 128;
  const int row_stride = (heads_in_rows ? H * D : D) + gap;
  const int head_stride = heads_in_rows ? D : N * row_stride + 64;
  const int batch_stride = (heads_in_rows ? N * row_stride : H * head_stride) + 8;
  std::vector<T> o(std::size_t(before + B * batch_stride + 1024));
  for (T& element : o) element.bits = 0xabab;
  DeviceArray<T> device_o(o);
  const Tensor<T> O{device_o.data() + before, B, H, N, D, batch_stride, head_stride, row_stride};
  const int blocks = 2;
  launch<store_pages<T, D, rows>>(dim3(blocks, unsigned(B) + 1),
                                  dim3(64),
                                  tile_bytes<T, 64>(2 * D / 64 * rows),
                                  tile_map("O", O, rows, D),
                                  first,
                                  H);
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = first; i < std::min(N, first + blocks * 2 * rows); ++i)
        for (int x = 0; x < D; ++x)
          o[std::size_t(before + b * batch_stride + h * head_stride + i * row_stride + x)] =
              marked<T>(b, h, i, x);
  const std::vector<T> got = device_o.values();
  int wrong = 0;
  for (std::size_t e = 0; e < o.size(); ++e) wrong += got[e].bits != o[e].bits;
  INFO("d " << D << ", N " << N << ", " << rows << " rows each from " << first << ", gap " << gap);
  CHECK(wrong == 0);
}

template <class T, int D, int rows>
void check_all_stores() {
  for (const bool heads_in_rows : {false, true})
    for (const int gap : {0, 8, 72}) {
      check_stores<T, D, rows>(4 * rows, 0, gap, heads_in_rows);      // all of it
      check_stores<T, D, rows>(3 * rows + 5, 0, gap, heads_in_rows);  // 5 rows of the last warp's
      check_stores<T, D, rows>(1, 0, gap, heads_in_rows);             // one of the first one's
      check_stores<T, D, rows>(4 * rows, 7, gap, heads_in_rows);      // from row 7 on
      check_stores<T, D, rows>(rows, 9 * rows, gap, heads_in_rows);   // none
    }
}

TEST_CASE("pages stored by TMA: every element, and nothing else") {
  if (!is_hopper()) return;
  late_and_early([] {
    check_all_stores<float16, 64, 8>();
    check_all_stores<float16, 128, 32>();
    check_all_stores<bfloat16, 64, 32>();
    check_all_stores<bfloat16, 128, 16>();
  });
}

/// Pages as they come, by one thread in a block: from rows of one tensor to rows of another, by way of
/// two tiles. No thread touches them, so there is no fence.
template <class T, int D>
__global__ void pass_on(const __grid_constant__ TileMap<const T> from,
                        const __grid_constant__ TileMap<T> to,
                        int n) {
  constexpr int rows = 16, pages = D / 64;
  SharedMemory memory = shared_memory();
  const SharedTile<T, 64> tile = memory.tile<T, 64>("tile", 2 * pages * rows);
  const Shared<Mbarrier> full = memory.array<Mbarrier>("full", 2);
  if (threadIdx.x != 0) return;
  for (int s = 0; s < 2; ++s) mbarrier_init(full + s, 1);
  const auto load = [&](int k) {
    mbarrier_arrive_expect(full + k % 2, rows * D * 2);
    tma_load(tile + k % 2 * pages * rows, from, k * rows, 0, 0, full + k % 2);
  };
  const int tiles = (n + rows - 1) / rows;
  load(0);
  for (int k = 0; k < tiles; ++k) {
    tma_store_wait();  // for the page that the next load is to take the place of
    if (k + 1 < tiles) load(k + 1);
    mbarrier_wait(full + k % 2, k / 2 % 2);
    for (int page = 0; page < pages; ++page)
      tma_store(to, tile + (k % 2 * pages + page) * rows, page, k * rows, 0, 0);
  }
  tma_store_wait();
}

TEST_CASE("tiles pass through a block by TMA, in and out") {
  if (!is_hopper()) return;
  late_and_early([] {
    constexpr int D = 128;
    for (const int n : {1, 16, 47, 200}) {
      std::vector<float16> x(std::size_t(n * D));
      for (std::size_t e = 0; e < x.size(); ++e) x[e].bits = static_cast<std::uint16_t>(e + 1);
      DeviceArray<float16> device_x(x);
      DeviceArray<float16> device_y(std::vector<float16>(x.size() + 2048, float16(0.0f)));
      const Tensor<const float16> X{device_x.data(), 1, 1, n, D, 0, 0, D};
      const Tensor<float16> Y{device_y.data(), 1, 1, n, D, 0, 0, D};
      launch<pass_on<float16, D>>(dim3(1),
                                  dim3(32),
                                  tile_bytes<float16, 64>(2 * D / 64 * 16) + 128,
                                  tile_map("X", X, 16, D),
                                  tile_map("Y", Y, 16, D),
                                  n);
      const std::vector<float16> y = device_y.values();
      int wrong = 0;
      for (std::size_t e = 0; e < y.size(); ++e)
        wrong += y[e].bits != (e < x.size() ? x[e].bits : 0);
      INFO(n << " rows");
      CHECK(wrong == 0);
    }
  });
}

/// Sums the rows of a head by 4 warps, each through ldmatrix, from a ring of 3 tiles that TMA fills.
/// The last warp to release a tile has it filled again.
template <class T, int D, bool together>
__global__ void sum_through_ring(const __grid_constant__ TileMap<const T> X,
                                 Global<float> out,  // [4 warps, D]: warp w sums rows of w mod 4
                                 int n) {
  constexpr int rows = 16, pages = D / 64, stages = 3, bytes = rows * D * 2;
  SharedMemory memory = shared_memory();
  const SharedTile<T, 64> ring = memory.tile<T, 64>("ring", stages * pages * rows);
  const Shared<Mbarrier> full = memory.array<Mbarrier>("full", stages);
  const Shared<int> released = memory.array<int>("released", stages);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (n + rows - 1) / rows;
  const auto fill = [&](int k) {
    const int stage = k % stages;
    mbarrier_arrive_expect(full + stage, bytes);
    tma_load(ring + stage * pages * rows, X, k * rows, 1, 0, full + stage);
  };
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(full + s, 1);
      released[s] = 0;
    }
    for (int k = 0; k < stages && k < tiles; ++k) fill(k);
  }
  __syncthreads();
  float sums[D / 8][2] = {};
  for (int k = 0; k < tiles; ++k) {
    const int stage = k % stages, round = k / stages;
    if (together)
      mbarrier_wait_together(full + stage, round % 2);
    else
      mbarrier_wait(full + stage, round % 2);
    for (int x = 0; x < D; x += 32) {  // the first 8 rows, then the others: 4 matrices of 8 columns
      for (int half = 0; half < 2; ++half) {
        const int i = half * 8 + lane % 8, piece = x % 64 / 8 + lane / 8;
        std::uint32_t r[4];
        ldmatrix_x4(r, ring[(stage * pages + x / 64) * rows + i] + (piece ^ (i & 7)) * 8);
        for (int m = 0; m < 4; ++m) {
          T low, high;
          low.bits = static_cast<std::uint16_t>(r[m]);
          high.bits = static_cast<std::uint16_t>(r[m] >> 16);
          if (lane / 4 % 4 != warp) continue;  // its rows alone
          sums[x / 8 + m][0] += static_cast<float>(low);
          sums[x / 8 + m][1] += static_cast<float>(high);
        }
      }
    }
    __syncwarp();
    if (lane == 0 && arrive_at(released + stage) == 4 * (round + 1) - 1 && k + stages < tiles) {
      fence_proxy_async();
      fill(k + stages);
    }
  }
  for (int x = 0; x < D / 8; ++x)
    for (int half = 0; half < 2; ++half) {
      // Rows g and g + 4 of the lanes 4 g + t.
      const float both = sums[x][half] + __shfl_xor_sync(kAllLanes, sums[x][half], 16);
      if (lane / 4 == warp) out[warp * D + x * 8 + lane % 4 * 2 + half] = both;
    }
}

template <class T, int D, bool together>
void check_ring() {
  for (const int n : {1, 16, 47, 48, 49, 200, 333}) {
    std::vector<T> x(std::size_t(2 * n * D));  // [B 1, H 2, N, D]
    for (std::size_t e = 0; e < x.size(); ++e) x[e] = T(static_cast<float>(e % 23));
    DeviceArray<T> device_x(x);
    DeviceArray<float> out(std::vector<float>(4 * D, -1.0f));
    const Tensor<const T> X{device_x.data(), 1, 2, n, D, 2 * n * D, n * D, D};
    launch<sum_through_ring<T, D, together>>(
        dim3(1),
        dim3(128),
        tile_bytes<T, 64>(3 * D / 64 * 16) + tile_bytes<Mbarrier, 1>(3) + tile_bytes<int, 1>(3),
        tile_map("X", X, 16, D),
        argument("out", out),
        n);
    std::vector<float> expected(4 * D, 0.0f);
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < D; ++c)
        expected[std::size_t(i % 4 * D + c)] += static_cast<float>(x[std::size_t((n + i) * D + c)]);
    INFO(n << " rows");
    CHECK(out.values() == expected);
  }
}

TEST_CASE("a ring of tiles that TMA fills, refilled by the last warp to release one") {
  if (!is_hopper()) return;
  late_and_early([] {
    check_ring<float16, 64, false>();
    check_ring<bfloat16, 128, false>();
  });
}

TEST_CASE("the same ring, at whose mbarriers the lanes of a warp wait together") {
  if (!is_hopper()) return;
  late_and_early([] {
    check_ring<float16, 64, true>();
    check_ring<bfloat16, 128, true>();
  });
}

}  // namespace FA_TARGET
}  // namespace fa::test
