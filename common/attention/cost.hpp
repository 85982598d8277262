// What a stage costs beside arithmetic, predicted. Each stage states its own formula; the tests
// hold the memory against what the stage allocates.
#pragma once

#include "common/attention/mask.hpp"

namespace fa {

/// Tile sizes: Br queries by Bc keys.
struct Tile {
  Index Br = 0;
  Index Bc = 0;
};

/// One head as a stage sees it.
struct HeadShape {
  Index Nq = 0;
  Index d = 0;
  Index element_bytes = 4;
  Mask mask;  // knows Nkv and which keys each query sees
  Tile tile;  // for the stages that have one
};

struct Cost {
  double scratch_bytes = 0;  // extra memory of one call
  double traffic_bytes = 0;  // bytes of Q, K, V, O, S, P that the loops ask for, caches ignored
};

/// Q read once, O and LSE written once: the traffic that no stage can avoid, K and V aside.
inline double unavoidable_bytes(const HeadShape& s) {
  return static_cast<double>(s.Nq) * (2.0 * static_cast<double>(s.d * s.element_bytes) + 4.0);
}

/// Rows of K (and of V) that are read when queries come in tiles of Br and each tile reads the
/// keys that its queries see. Br = 1: once for every visible (query, key) pair. Rows that come
/// `at_a_time` come whole, as far as there are any.
inline double key_rows_read(const HeadShape& s, Index Br, Index at_a_time = 1) {
  double rows = 0;
  for (Index i0 = 0; i0 < s.Nq; i0 += Br) {
    const KeyRange keys = s.mask.keys(i0, std::min(i0 + Br, s.Nq));
    const Index copies = (keys.last - keys.first + at_a_time - 1) / at_a_time;
    rows += static_cast<double>(std::min(copies * at_a_time, s.mask.Nkv - keys.first));
  }
  return rows;
}

}  // namespace fa
