// Kernels that a GPU runs without a word. Each region is one of them; the comment in it says what
// is missing.
#include "common/simt/planted.hpp"

#include "common/cuda/device.cuh"

namespace fa::simt::planted {

namespace {

//# region no_barrier  an array of 64 floats turned round, by 64 threads
__global__ void turn_round(Global<float> x) {
  const int t = threadIdx.x;
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 64);
  s[t] = x[t];
  // Missing: __syncthreads(), since another thread wrote what this one reads.
  x[t] = s[63 - t];
}
//# endregion

//# region tail  100 floats doubled, by 2 blocks of 64 threads
__global__ void twice(Global<float> x) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  // Missing: if (i >= 100) return;
  x[i] *= 2;
}
//# endregion

//# region no_wait  128 floats fetched, 16 bytes a thread, by 32 threads; 32 of them copied on
__global__ void fetch(Global<const float> x, Global<float> y) {
  const int t = threadIdx.x;
  SharedMemory memory = shared_memory();
  const Shared<float> s = memory.array<float>("s", 128);
  cp_async_16(s + 4 * t, x + 4 * t, 16);
  cp_async_commit();
  // Missing: cp_async_wait<0>(). The barrier orders threads; it doesn't wait for copies.
  __syncthreads();
  y[t] = s[t];
}
//# endregion

std::vector<float> counting(int n) {
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(i));
  return values;
}

/// Launches the kernel, and counts the elements of `output` that are expected(i).
template <auto kernel, class Expected, class... Arguments>
Planted run(Copies copies,
            unsigned blocks,
            unsigned threads,
            const std::vector<float>& output,
            Expected expected,
            Arguments&&... arguments) {
  Options options;
  options.copies = copies;
  options.workers = 1;
  Session session(options);
  launch<kernel>(dim3(blocks), dim3(threads), 1024, std::forward<Arguments>(arguments)...);
  Planted result;
  result.report = session.report();
  result.of = static_cast<int>(output.size());
  for (int i = 0; i < result.of; ++i)
    if (output[static_cast<std::size_t>(i)] == expected(i)) ++result.right;
  return result;
}

}  // namespace

Planted no_barrier() {
  std::vector<float> x = counting(64);
  return run<turn_round>(
      Copies::late, 1, 64, x, [](int i) { return 63.0f - float(i); }, global("x", x.data(), 64));
}

Planted tail() {
  std::vector<float> x = counting(100);
  return run<twice>(
      Copies::late, 2, 64, x, [](int i) { return 2.0f * float(i); }, global("x", x.data(), 100));
}

Planted no_wait(Copies copies) {
  const std::vector<float> x = counting(128);
  std::vector<float> y(32);
  return run<fetch>(
      copies,
      1,
      32,
      y,
      [](int i) { return float(i); },
      global("x", x.data(), 128),
      global("y", y.data(), 32));
}

}  // namespace fa::simt::planted
