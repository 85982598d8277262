// Three small kernels, each with one mistake, run in the emulator.
#pragma once

#include <vector>

#include "common/simt/launch.hpp"

namespace fa::simt::planted {

/// What the emulator reported, and how many elements of the output are what they should be.
struct Planted {
  Report report;
  int right = 0;
  int of = 0;
};

/// A barrier is missing between writing and reading shared memory.
Planted no_barrier();

/// More threads than elements, and nobody asks.
Planted tail();

/// Data of an asynchronous copy is read without waiting for it.
Planted no_wait(Copies copies);

}  // namespace fa::simt::planted
