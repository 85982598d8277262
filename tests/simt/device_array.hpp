// An array that a kernel can reach, the same way on a GPU and in the emulator.
#pragma once

#include <cstring>
#include <vector>

#include "common/cuda/device.cuh"

namespace fa::test {

#ifdef __CUDACC__

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    gpu::check(cudaMalloc(&data_, bytes()), "cudaMalloc");
    gpu::check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  Index size() const { return static_cast<Index>(size_); }

  /// What the array holds now. Waits for the kernels launched before.
  std::vector<T> values() const {
    std::vector<T> result(size_);
    gpu::check(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }
  T* data_ = nullptr;
  std::size_t size_;
};

#else

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::vector<T> values) : values_(std::move(values)) {}
  T* data() { return values_.data(); }
  Index size() const { return static_cast<Index>(values_.size()); }
  std::vector<T> values() const { return values_; }

 private:
  std::vector<T> values_;
};

#endif

/// As an argument of a kernel.
template <class T>
auto argument(const char* name, DeviceArray<T>& array) {
  return global(name, array.data(), array.size());
}
template <class T>
auto const_argument(const char* name, DeviceArray<T>& array) {
  return global(name, static_cast<const T*>(array.data()), array.size());
}

/// 0, 1, 2, …
inline std::vector<float> counting(Index n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace fa::test
