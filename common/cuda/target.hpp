// Which of the two a file is compiled for: a GPU, or the emulator.
//
// A program may hold a kernel's both instances. Everything whose meaning differs lies in an inline
// namespace of its own, `gpu` or `simt`: `stage4::attention` inside the stage's own files, and
// `stage4::gpu::attention` or `stage4::simt::attention` where both are linked.
#pragma once

#include <cstddef>

#include "common/attention/host_device.hpp"

#ifndef FA_TARGET
#ifdef __CUDACC__
#define FA_TARGET gpu
#else
#define FA_TARGET simt
#endif
#endif

namespace fa {

/// Bytes that a tile [rows, cols] takes in shared memory: whole 128-byte lines.
template <class T, int cols>
FA_HOST_DEVICE constexpr std::size_t tile_bytes(long long rows) {
  return (sizeof(T) * static_cast<std::size_t>(cols) * static_cast<std::size_t>(rows) + 127) / 128 *
         128;
}

}  // namespace fa
