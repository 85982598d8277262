#include "common/cuda/runtime.hpp"

namespace fa::cuda {

const Gpu& gpu() {
  static const Gpu none{false, "", 0, 0, "no GPU: this build has no CUDA"};
  return none;
}

}  // namespace fa::cuda
