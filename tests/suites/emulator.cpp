// The CUDA stages in the emulator, which also looks for races, reads and writes out of bounds, … Steps of
// stage 5, which copy asynchronously, once more with copies that arrive early.
#include "tests/early_copies.hpp"

namespace fa {

const Suite& suite() {
  static const Suite emulator = [] {
    Suite made{Suite::On::emulator, device_stages(Device::simt)};
    for (const Variant& variant : device_stages(Device::simt)) {
      if (variant.stage.step.empty()) continue;
      made.variants.push_back(with_early_copies(variant));
      made.variants.back().whole_suite = false;
    }
    return made;
  }();
  return emulator;
}

}  // namespace fa
