#include "common/simt/fragments.hpp"

#include <stdexcept>

#include "common/cuda/device.cuh"
#include "common/simt/launch.hpp"

namespace fa::simt::fragments {

namespace {

/// Element (i, x) of the tile is the number 16 i + x, as bits.
__global__ void load_fragments(Global<std::uint32_t> a,
                               Global<std::uint32_t> k,
                               Global<std::uint32_t> v) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 16> tile = memory.tile<float16, 16>("tile", 16);
  const int lane = threadIdx.x, below = lane % 16, beside = lane / 16 * 8;
  const int k_below = lane % 8 + beside, k_beside = lane % 16 / 8 * 8;
  for (int x = 0; x < 8; ++x) {
    float16 element;
    element.bits = static_cast<std::uint16_t>(16 * below + beside + x);
    tile[below][beside + x] = element;
  }
  __syncwarp();
  std::uint32_t q[4], first[2], second[2];
  ldmatrix_x4(q, tile[below] + beside);
  for (int i = 0; i < 4; ++i) a[4 * lane + i] = q[i];
  ldmatrix_x4(first, second, tile[k_below] + k_beside);
  for (int i = 0; i < 2; ++i) k[2 * lane + i] = first[i];
  ldmatrix_x4_trans(first, second, tile[below] + beside);
  for (int i = 0; i < 2; ++i) v[2 * lane + i] = first[i];
}

/// S = Q Kᵀ, of 16 queries and 16 keys, and O = S V with 8 columns, S never leaving its lane.
__global__ void chain(Global<const float16> Q,  // [16, 16]
                      Global<const float16> K,  // [16, 16]
                      Global<const float16> V,  // [16, 16], of which 8 columns are used
                      Global<float> S,          // [lane][4], of the first 8 keys
                      Global<float> O) {        // [16, 8]
  SharedMemory memory = shared_memory();
  const SharedTile<float16, 16> sQ = memory.tile<float16, 16>("sQ", 16);
  const SharedTile<float16, 16> sK = memory.tile<float16, 16>("sK", 16);
  const SharedTile<float16, 16> sV = memory.tile<float16, 16>("sV", 16);
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4, below = lane % 16,
            beside = lane / 16 * 8;
  for (int e = lane; e < 256; e += 32) {
    sQ[e / 16][e % 16] = Q[e];
    sK[e / 16][e % 16] = K[e];
    sV[e / 16][e % 16] = V[e];
  }
  __syncwarp();
  std::uint32_t q[4], k[2][2], v[2][2], p[4];
  ldmatrix_x4(q, sQ[below] + beside);
  ldmatrix_x4(k[0], k[1], sK[lane % 8 + beside] + lane % 16 / 8 * 8);
  ldmatrix_x4_trans(v[0], v[1], sV[below] + beside);
  float s[2][4] = {}, o[4] = {};
  for (int n = 0; n < 2; ++n) mma_m16n8k16<float16>(s[n], q, k[n], s[n]);
  for (int i = 0; i < 4; ++i) S[4 * lane + i] = s[0][i];
  for (int a = 0; a < 4; ++a)
    p[a] = round_pair<float16>(s[a / 2][a % 2 * 2], s[a / 2][a % 2 * 2 + 1]);
  mma_m16n8k16<float16>(o, p, v[0], o);
  for (int y = 0; y < 4; ++y) O[(g + y / 2 * 8) * 8 + 2 * t + y % 2] = o[y];
}

constexpr int kKeys = 64, kColumns = 64;

/// All fragments of K, as one warp needs them: by ldmatrix, or by loads of 4 bytes.
template <int width, bool swizzled, bool singly>
__global__ void fetch_keys(Global<std::uint32_t> out) {
  SharedMemory memory = shared_memory();
  const SharedTile<float16, width> tile = memory.tile<float16, width>("tile", kKeys);
  const int lane = threadIdx.x, beside = lane / 16 * 8;
  const auto place = [&](int i, int x) { return tile[i] + (swizzled ? x ^ (i & 7) * 8 : x); };
  for (int e = lane; e < kKeys * kColumns / 2; e += 32)
    store_vector(place(e / (kColumns / 2), e % (kColumns / 2) * 2), std::uint32_t{1});
  __syncwarp();
  std::uint32_t sum = 0;
  for (int x = 0; x < kColumns; x += 16)
    for (int n = 0; n < kKeys; n += 16) {
      std::uint32_t k[2][2] = {};
      if constexpr (!singly)
        ldmatrix_x4(k[0], k[1], place(n + lane % 8 + beside, x + lane % 16 / 8 * 8));
      else
        for (int i = 0; i < 2; ++i)
          for (int y = 0; y < 2; ++y)
            k[i][y] =
                load_vector<std::uint32_t>(place(n + 8 * i + lane / 4, x + 8 * y + lane % 4 * 2));
      sum += k[0][0] + k[0][1] + k[1][0] + k[1][1];
    }
  out[lane] = sum;
}

/// Runs one block of one warp.
template <auto kernel, class... Arguments>
Counters run(std::size_t shared_bytes, Arguments&&... arguments) {
  Options options;
  options.workers = 1;
  Session session(options);
  launch<kernel>(dim3(1), dim3(32), shared_bytes, std::forward<Arguments>(arguments)...);
  if (!session.report().ok()) throw std::runtime_error(session.report().text());
  return session.report().total;
}

template <int registers>
Registers<registers> told(const std::vector<std::uint32_t>& bits) {
  Registers<registers> result{};
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t i = 0; i < registers; ++i)
      for (std::size_t half = 0; half < 2; ++half) {
        const int element = static_cast<int>(bits[registers * lane + i] >> 16 * half & 0xffff);
        result[lane][i][half] = {element / 16, element % 16};
      }
  return result;
}

struct Chain {
  std::vector<float> S, O;
};
Chain run_chain(const std::vector<float16>& Q,
                const std::vector<float16>& K,
                const std::vector<float16>& V) {
  Chain result{std::vector<float>(128), std::vector<float>(128)};
  run<chain>(3 * tile_bytes<float16, 16>(16),
             global("Q", Q.data(), 256),
             global("K", K.data(), 256),
             global("V", V.data(), 256),
             global("S", result.S.data(), 128),
             global("O", result.O.data(), 128));
  return result;
}

template <int width, bool swizzled>
Layout layout(const std::string& name) {
  Layout result;
  result.name = name;
  result.bytes = kKeys * width * 2;
  for (int i = 0; i < 8; ++i)
    for (int p = 0; p < 8; ++p)
      result.bank[std::size_t(i)][std::size_t(p)] =
          (i * width + (swizzled ? p ^ i : p) * 8) * 2 / 4 % 32;
  std::vector<std::uint32_t> out(32);
  const auto shared = tile_bytes<float16, width>(kKeys);
  result.fetched = run<fetch_keys<width, swizzled, false>>(shared, global("out", out.data(), 32));
  result.fetched_singly =
      run<fetch_keys<width, swizzled, true>>(shared, global("out", out.data(), 32));
  return result;
}

}  // namespace

Loaded loaded() {
  std::vector<std::uint32_t> a(128), k(64), v(64);
  run<load_fragments>(tile_bytes<float16, 16>(16),
                      global("a", a.data(), 128),
                      global("k", k.data(), 64),
                      global("v", v.data(), 64));
  return {told<4>(a), told<2>(k), told<2>(v)};
}

std::array<std::array<Element, 4>, 32> accumulated() {
  // q_i · k_j = 8 i + j
  std::vector<float16> Q(256, float16(0)), K(256, float16(0)), V(256, float16(0));
  for (std::size_t i = 0; i < 16; ++i) {
    Q[16 * i] = float16(static_cast<float>(8 * i)), Q[16 * i + 1] = float16(1);
    K[16 * i] = float16(1), K[16 * i + 1] = float16(static_cast<float>(i));
  }
  const std::vector<float> S = run_chain(Q, K, V).S;
  std::array<std::array<Element, 4>, 32> result{};
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t c = 0; c < 4; ++c) {
      const int element = static_cast<int>(S[4 * lane + c]);
      result[lane][c] = {element / 8, element % 8};
    }
  return result;
}

int right_in_chain() {
  // Small whole numbers: every sum and product is exact.
  std::vector<float16> Q(256), K(256), V(256);
  const auto number = [](int i, int x, int of) { return static_cast<float>((5 * i + 3 * x) % of); };
  for (int i = 0; i < 16; ++i)
    for (int x = 0; x < 16; ++x) {
      const std::size_t e = std::size_t(16 * i + x);
      Q[e] = float16(number(i, x, 3)), K[e] = float16(number(x, i, 2)),
      V[e] = float16(number(i, x, 7));
    }
  const std::vector<float> O = run_chain(Q, K, V).O;
  int right = 0;
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t y = 0; y < 8; ++y) {
      float sum = 0;
      for (std::size_t j = 0; j < 16; ++j) {
        float s = 0;
        for (std::size_t x = 0; x < 16; ++x) s += float(Q[16 * i + x]) * float(K[16 * j + x]);
        sum += s * float(V[16 * j + y]);
      }
      right += O[8 * i + y] == sum;
    }
  return right;
}

std::vector<Layout> layouts() {
  return {layout<kColumns, false>("as they come"),
          layout<kColumns + 8, false>("padded by 8"),
          layout<kColumns, true>("swizzled")};
}

}  // namespace fa::simt::fragments
