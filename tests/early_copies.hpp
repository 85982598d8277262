// The emulator's other way to copy: a variant that runs inside a session of early copies.
#pragma once

#include "common/simt/launch.hpp"
#include "tests/all_stages.hpp"

namespace fa {

/// The same variant with copies that arrive at once while a warp is far ahead, which finds a buffer that is
/// overwritten too early; without it copies arrive at their wait, which finds a missing wait.
inline Variant with_early_copies(Variant variant) {
  variant.name += ", early copies";
  variant.around = [] {
    simt::Options options;
    options.copies = simt::Copies::early;
    return std::make_shared<simt::Session>(options);
  };
  return variant;
}

}  // namespace fa
