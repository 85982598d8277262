// What the tensor cores do by mma.sync when nothing stands in their way: a kernel of nothing but
// mma.m16n8k16, float16 into float32. stage5_gpu.py runs it beside the steps.
#include <exception>
#include <string>

#include "common/cuda/device.cuh"

using namespace fa;

namespace {

constexpr int kThreads = 256, kBlocksPerSm = 2;  // 16 warps an SM, 4 for each of its tensor cores
constexpr int kRows = 2, kColumns = 8;           // fragments of A and B: 16 independent sums a warp
constexpr double kFlop = 2.0 * 16 * 8 * 16;      // of an mma

/// Two random float16 of both signs in [1/8, 2): on zeros the chip would be faster than on data.
__device__ std::uint32_t random_pair(std::uint32_t seed) {
  seed = (seed ^ seed >> 16) * 0x7feb352d;
  seed = (seed ^ seed >> 15) * 0x846ca68b;
  return ((seed ^ seed >> 16) & 0x8fff8fff) | 0x30003000;
}

/// Grid: two blocks an SM. Block: 8 warps. No memory; at most 128 registers a thread.
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    mma_ceiling_kernel(long iterations, float* never) {
  std::uint32_t a[kRows][4], b[kColumns][2], seed = (blockIdx.x * kThreads + threadIdx.x) * 32;
  for (auto& fragment : a)
    for (std::uint32_t& pair : fragment) pair = random_pair(++seed);
  for (auto& fragment : b)
    for (std::uint32_t& pair : fragment) pair = random_pair(++seed);
  float sums[kRows][kColumns][4] = {};
  for (long n = 0; n < iterations; ++n)
#pragma unroll
    for (int column = 0; column < kColumns; ++column)
      for (int row = 0; row < kRows; ++row)
        mma_m16n8k16<float16>(sums[row][column], a[row], b[column], sums[row][column]);
  float all = 0;
  for (auto& row : sums)
    for (auto& fragment : row)
      for (float sum : fragment) all += sum;
  if (all == 1e-30f) *never = all;  // the compiler can't know that sums of float16 products aren't
}

}  // namespace

extern "C" {

/// Launches the kernel on the default stream and returns at once. Each warp does 16 mma an
/// iteration; *flop becomes the launch's. Returns what went wrong, or a null pointer.
const char* fa_mma_ceiling(long iterations, double* flop) {
  static std::string problem;
  try {
    int device = 0, sms = 0;
    gpu::check(cudaGetDevice(&device), "cudaGetDevice");
    gpu::check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
               "counting SMs");
    const unsigned blocks = static_cast<unsigned>(kBlocksPerSm * sms);
    launch<mma_ceiling_kernel>(
        dim3(blocks), dim3(kThreads), 0, iterations, static_cast<float*>(nullptr));
    *flop = kFlop * kRows * kColumns * double(iterations) * (kThreads / 32) * blocks;
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
}
