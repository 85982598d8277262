// The CUDA stages on the GPU of this machine.
#include "tests/all_stages.hpp"

namespace fa {

const Suite& suite() {
  static const Suite gpu{Suite::On::gpu, device_stages(Device::gpu)};
  return gpu;
}

}  // namespace fa
