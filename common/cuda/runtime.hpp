// The GPU from the host's side: is there one, memory on it, and time by its own clock. Without CUDA
// in the build the same functions say so (runtime_none.cpp).
#pragma once

#include <cstddef>
#include <string>

namespace fa::cuda {

/// One GPU, or why there is none that can run this program.
struct Gpu {
  bool usable = false;
  std::string name;     // "NVIDIA H200"
  int cc = 0;           // compute capability, 90 for 9.0
  int code_cc = 0;      // that of the code which this program holds for it: what a kernel can use
  std::string problem;  // one line, where not usable

  /// "NVIDIA H200 (cc 9.0)", or "NVIDIA H200 (cc 9.0, code for cc 8.0)"
  std::string text() const;

  /// What a kernel that needs this compute capability lacks here: "a GPU of cc 9.0 or later".
  /// Empty: nothing.
  std::string lacks(int needed) const;
};

/// The first GPU, asked once.
const Gpu& gpu();

/// Memory of the GPU. Throws std::bad_alloc where there is not enough, CannotRun for other errors.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  void copy_from_host(const void* from);
  void copy_to_host(void* to) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Seconds between two points in the GPU's stream of work, by its events. stop() waits for the
/// work, and throws CannotRun where a launch or a kernel failed.
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  void start();
  double stop();

 private:
  void* start_ = nullptr;
  void* stop_ = nullptr;
};

}  // namespace fa::cuda
