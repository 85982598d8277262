// The CUDA stages in the emulator, which also looks for races, reads and writes out of bounds, …
#include "tests/all_stages.hpp"

namespace fa {

const Suite& suite() {
  static const Suite emulator{Suite::On::emulator, device_stages(Device::simt)};
  return emulator;
}

}  // namespace fa
