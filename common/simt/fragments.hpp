// Who has what when a warp multiplies: the words of stage 5, asked in the emulator. Each element that
// is loaded says which one it is, so registers tell by themselves what they hold.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/simt/counters.hpp"

namespace fa::simt::fragments {

/// An element of a tile.
struct Element {
  int row = 0, column = 0;
};

/// What a warp's registers hold: [lane][register][half].
template <int registers>
using Registers = std::array<std::array<std::array<Element, 2>, registers>, 32>;

/// As the steps load them: A by ldmatrix.x4 from 16 rows of 16; B by ldmatrix.x4 from K, keys in rows;
/// and by ldmatrix.x4.trans from V, keys in rows too.
struct Loaded {
  Registers<4> A;
  Registers<2> K, V;
};
Loaded loaded();

/// What the product leaves: [lane][c0 … c3].
std::array<std::array<Element, 4>, 32> accumulated();

/// P V with a P that is the accumulator of Q Kᵀ, rounded and handed on in the same lane: how many of
/// the 16 · 8 elements are those of the definition.
int right_in_chain();

/// Where the first piece of 8 columns of row i lies in a layout, and what fetching all of a tile of 64
/// keys by 64 components costs.
struct Layout {
  std::string name;
  int bytes = 0;                             // of shared memory
  std::array<std::array<int, 8>, 8> bank{};  // [row][piece]: the first of its 4 banks
  Counters fetched;                          // all fragments of K, by ldmatrix, once
  Counters fetched_singly;                   // the same by loads of 4 bytes, as in step 1
};
std::vector<Layout> layouts();

}  // namespace fa::simt::fragments
