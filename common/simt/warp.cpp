#include "common/simt/warp.hpp"

#include <fmt/format.h>

namespace fa::simt::impl {

namespace {
/// The k-th lane of a mask, for loops over its lanes.
template <class F>
void for_lanes(std::uint32_t mask, F f) {
  for (; mask; mask &= mask - 1) f(__builtin_ctz(mask));
}

void need_whole_warp(Worker& worker, int warp, std::uint32_t mask, const char* name) {
  if (mask == kAllLanes) return;
  Violation v;
  v.fault = Fault::divergence;
  v.thread = warp * 32 + __builtin_ctz(mask);
  v.site = worker.operation_site(v.thread);
  v.address = name;
  v.detail = fmt::format("needs all 32 lanes, but only {:#010x} are there", mask);
  worker.violate(std::move(v));
}
}  // namespace

void sync_warp(Worker& worker, int warp, std::uint32_t mask, void* const*) {
  ++worker.counters().warp_barriers;
  if (worker.options().checks) worker.race().order().warp_barrier(warp, mask);
}

void shuffle(Worker& worker, int warp, std::uint32_t mask, void* const* arguments) {
  ++worker.counters().shuffles;
  for_lanes(mask, [&](int lane) {
    Exchange& mine = *static_cast<Exchange*>(arguments[lane]);
    if (mask >> mine.source & 1) {
      mine.result = static_cast<Exchange*>(arguments[mine.source])->value;
      return;
    }
    mine.result = ~std::uint64_t{0};
    Violation v;
    v.fault = Fault::shuffle;
    v.thread = warp * 32 + lane;
    v.site = worker.operation_site(v.thread);
    v.address = fmt::format("lane {}", lane);
    v.detail = fmt::format(
        "takes the value of lane {}, which isn't among the lanes {:#010x}", mine.source, mask);
    worker.violate(std::move(v));
  });
}

void ballot(Worker& worker, int, std::uint32_t mask, void* const* arguments) {
  ++worker.counters().votes;
  std::uint64_t votes = 0;
  for_lanes(mask,
            [&](int lane) { votes |= static_cast<Exchange*>(arguments[lane])->value << lane; });
  for_lanes(mask, [&](int lane) { static_cast<Exchange*>(arguments[lane])->result = votes; });
}

template <int matrices, bool transposed>
void load_matrices(Worker& worker, int warp, std::uint32_t mask, void* const* arguments) {
  need_whole_warp(worker, warp, mask, "ldmatrix");
  if (mask != kAllLanes) return;
  const SiteId site = worker.operation_site(warp * 32);
  ++worker.counters().ldmatrix_requests;
  std::uint16_t elements[matrices][8][8];
  for (int m = 0; m < matrices; ++m) {
    WarpAccess access;  // a matrix is one pass: 8 rows of 16 bytes over the banks
    access.bytes = 16;
    for (int i = 0; i < 8; ++i) {
      const MatrixRows& row = *static_cast<MatrixRows*>(arguments[m * 8 + i]);
      if (!row.inside) {
        std::memset(elements[m][i], 0xff, 16);
        continue;
      }
      std::memcpy(elements[m][i], worker.shared() + row.row, 16);
      access.lane[access.lanes] = i;
      access.at[access.lanes++] = row.row;
      if (!worker.options().checks) continue;
      const RaceDetector::Result result = worker.race().load(warp, kAllLanes, row.row, 16, site);
      if (result.fault != RaceDetector::Fault::none)
        worker.report_race(result, site, "read by ldmatrix");
    }
    if (!worker.options().counters) continue;
    const Wavefronts cycles = worker.wavefronts_of(access, site);
    worker.counters().ldmatrix_wavefronts += static_cast<std::uint64_t>(cycles.all);
    worker.counters().ldmatrix_conflicts += static_cast<std::uint64_t>(cycles.conflicts);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int m = 0; m < matrices; ++m) {
      const int i = lane / 4, x = lane % 4 * 2;
      const std::uint32_t low = transposed ? elements[m][x][i] : elements[m][i][x];
      const std::uint32_t high = transposed ? elements[m][x + 1][i] : elements[m][i][x + 1];
      static_cast<MatrixRows*>(arguments[lane])->result[m] = low | high << 16;
    }
}
template void load_matrices<2, false>(Worker&, int, std::uint32_t, void* const*);
template void load_matrices<2, true>(Worker&, int, std::uint32_t, void* const*);
template void load_matrices<4, false>(Worker&, int, std::uint32_t, void* const*);
template void load_matrices<4, true>(Worker&, int, std::uint32_t, void* const*);

template <class T>
void multiply(Worker& worker, int warp, std::uint32_t mask, void* const* arguments) {
  need_whole_warp(worker, warp, mask, "mma.m16n8k16");
  if (mask != kAllLanes) return;
  ++worker.counters().mma;
  float A[16][16], B[16][8], D[16][8];
  const auto halves = [](std::uint32_t bits, float& low, float& high) {
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    low = static_cast<float>(value);
    value.bits = static_cast<std::uint16_t>(bits >> 16);
    high = static_cast<float>(value);
  };
  for (int lane = 0; lane < 32; ++lane) {
    const Fragments& f = *static_cast<Fragments*>(arguments[lane]);
    const int g = lane / 4, t = lane % 4 * 2;
    halves(f.a[0], A[g][t], A[g][t + 1]);
    halves(f.a[1], A[g + 8][t], A[g + 8][t + 1]);
    halves(f.a[2], A[g][t + 8], A[g][t + 9]);
    halves(f.a[3], A[g + 8][t + 8], A[g + 8][t + 9]);
    halves(f.b[0], B[t][g], B[t + 1][g]);
    halves(f.b[1], B[t + 8][g], B[t + 9][g]);
    for (int r = 0; r < 4; ++r) D[g + r / 2 * 8][t + r % 2] = f.c[r];
  }
  // Products of two 16-bit numbers are exact in float32. The hardware adds them in an order and
  // with a precision of its own; here they are added one after the other.
  for (int i = 0; i < 16; ++i)
    for (int x = 0; x < 16; ++x)
      for (int j = 0; j < 8; ++j) D[i][j] += A[i][x] * B[x][j];
  for (int lane = 0; lane < 32; ++lane) {
    float* d = static_cast<Fragments*>(arguments[lane])->d;
    for (int r = 0; r < 4; ++r) d[r] = D[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
  }
}
template void multiply<float16>(Worker&, int, std::uint32_t, void* const*);
template void multiply<bfloat16>(Worker&, int, std::uint32_t, void* const*);

}  // namespace fa::simt::impl
