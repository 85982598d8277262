#include <cuda_runtime.h>

#include <new>

#include "common/cuda/runtime.hpp"
#include "common/harness/stage.hpp"

namespace fa::cuda {

namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // cleared: the next call is not to blame
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw CannotRun(std::string(gpu().name) + ": " + what + ": " + cudaGetErrorString(error));
}

/// The smallest kernel: does the program hold code that this GPU can run?
__global__ void probe() {}

Gpu find_gpu() {
  Gpu gpu;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    gpu.problem =
        error == cudaErrorInsufficientDriver
            ? "no NVIDIA driver, or one older than the CUDA Toolkit of this build"
            : std::string("no GPU: ") +
                  (error == cudaSuccess ? "none is installed" : cudaGetErrorString(error));
    return gpu;
  }
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, 0), "its properties");
  gpu.name = properties.name;
  gpu.cc = gpu.code_cc = 10 * properties.major + properties.minor;
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, probe) != cudaSuccess) {
    cudaGetLastError();
    gpu.problem = gpu.text() +
                  ": this program holds no code for it, only for " FA_CUDA_ARCHITECTURES
                  "; configure with -DCMAKE_CUDA_ARCHITECTURES=native";
    return gpu;
  }
  gpu.code_cc = attributes.ptxVersion;  // of its PTX, also where that has become machine code
  gpu.usable = true;
  return gpu;
}

}  // namespace

const Gpu& gpu() {
  static const Gpu found = find_gpu();
  return found;
}

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) require(cudaMalloc(&data_, bytes), "cudaMalloc");
}
DeviceMemory::~DeviceMemory() { cudaFree(data_); }

void DeviceMemory::copy_from_host(const void* from) {
  if (bytes_ > 0) require(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
}
void DeviceMemory::copy_to_host(void* to) const {
  if (bytes_ > 0) require(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

DeviceTimer::DeviceTimer() {
  cudaEvent_t event;
  require(cudaEventCreate(&event), "cudaEventCreate");
  start_ = event;
  require(cudaEventCreate(&event), "cudaEventCreate");
  stop_ = event;
}
DeviceTimer::~DeviceTimer() {
  cudaEventDestroy(static_cast<cudaEvent_t>(start_));
  cudaEventDestroy(static_cast<cudaEvent_t>(stop_));
}

void DeviceTimer::start() {
  require(cudaEventRecord(static_cast<cudaEvent_t>(start_)), "cudaEventRecord");
}

double DeviceTimer::stop() {
  require(cudaGetLastError(), "launching the kernel");
  require(cudaEventRecord(static_cast<cudaEvent_t>(stop_)), "cudaEventRecord");
  require(cudaDeviceSynchronize(), "running the kernel");
  float milliseconds = 0;
  require(cudaEventElapsedTime(
              &milliseconds, static_cast<cudaEvent_t>(start_), static_cast<cudaEvent_t>(stop_)),
          "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace fa::cuda
