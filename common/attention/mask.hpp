// Which keys a query sees.
//
// Query i stands on the diagonal at key i + diagonal, where diagonal = Nkv − Nq: the last query
// stands at the last key ("aligned bottom-right"), so that one new query with a cache of earlier
// keys sees all of them.
//
//   causal             keys up to the diagonal
//   window (L, R)      keys from L before the diagonal to R behind it, both included; −1: no bound
//
//        causal, Nq 3, Nkv 5         window (1, 0), Nq = Nkv = 5
//        key  0 1 2 3 4              key  0 1 2 3 4
//   query 0   x x x . .         query 0   x . . . .
//         1   x x x x .               1   x x . . .
//         2   x x x x x               2   . x x . .
//                                     3   . . x x .
//                                     4   . . . x x
//
// Every mask here is an interval of keys for each query, and neither end ever moves left as i
// grows. All that the stages do with masks rests on these two facts: rows loop over an interval,
// tiles loop over the union of their rows' intervals, and what lies outside is never touched.
#pragma once

#include <algorithm>

#include "common/attention/types.hpp"

namespace fa {

namespace detail {
// std::max and std::clamp aren't for device code.
FA_HOST_DEVICE constexpr Index larger(Index a, Index b) { return a < b ? b : a; }
FA_HOST_DEVICE constexpr Index clamp(Index x, Index lowest, Index highest) {
  return x < lowest ? lowest : highest < x ? highest : x;
}
}  // namespace detail

/// The keys [first, last); none when first == last.
struct KeyRange {
  Index first = 0;
  Index last = 0;

  FA_HOST_DEVICE bool empty() const { return first >= last; }
  FA_HOST_DEVICE bool contains(Index j) const { return first <= j && j < last; }
};

/// The keys that lie in both ranges. Where there are none, an empty range inside b.
FA_HOST_DEVICE inline KeyRange intersection(KeyRange a, KeyRange b) {
  const Index first = detail::clamp(a.first, b.first, b.last);
  return {first, detail::clamp(a.last, first, b.last)};
}

/// A mask for one block of queries, in 32 bits: keys are counted from the first that the block sees,
/// queries from its first.
struct BlockMask {
  int count = 0;     // keys from there to the last that the block sees
  int diagonal = 0;  // where its query 0 stands
  int left = 0;      // keys before the diagonal that are visible, 2^30 for all
  int right = 0;     // keys behind it, likewise

  /// Query i sees the keys [first(i), last(i)), or none where the second isn't larger.
  FA_HOST_DEVICE int first(int i) const {
    const int first = diagonal + i - left;
    return first < 0 ? 0 : first;
  }
  FA_HOST_DEVICE int last(int i) const {
    const int last = diagonal + i + right + 1;
    return last < count ? last : count;
  }

  /// The same with keys counted from j0 on.
  FA_HOST_DEVICE BlockMask from_key(int j0) const {
    return {count - j0, diagonal - j0, left, right};
  }
};

struct Mask {
  Index Nkv = 0;
  Index diagonal = 0;  // query 0 stands at this key; Nkv − Nq for a whole head
  bool causal = false;
  Index left = -1;   // keys before the diagonal that stay visible; −1: all
  Index right = -1;  // keys behind the diagonal that stay visible; −1: all

  /// The keys that query i sees: a subset of [0, Nkv).
  FA_HOST_DEVICE KeyRange keys(Index i) const {
    const Index at = i + diagonal;
    const Index first = left < 0 ? 0 : detail::clamp(at - left, 0, Nkv);
    const Index reach = causal ? 0 : right;
    const Index last = reach < 0 ? Nkv : detail::clamp(at + reach + 1, 0, Nkv);
    return {first, detail::larger(first, last)};
  }

  /// The keys that at least one of the queries [i0, i1) may see: from where the first of them
  /// begins to where the last of them ends.
  FA_HOST_DEVICE KeyRange keys(Index i0, Index i1) const {
    const Index first = keys(i0).first;
    return {first, detail::larger(first, keys(i1 - 1).last)};
  }

  /// The keys that every one of the queries [i0, i1) sees: from where the last of them begins to
  /// where the first of them ends.
  FA_HOST_DEVICE KeyRange keys_of_all(Index i0, Index i1) const {
    return {keys(i1 - 1).first, keys(i0).last};
  }

  /// The mask for the queries [i0, i1), of a head that has less than 2^29 queries and keys.
  FA_HOST_DEVICE BlockMask block(Index i0, Index i1) const {
    constexpr Index kFar = Index{1} << 30;
    const KeyRange seen = keys(i0, i1);
    const Index reach = causal ? 0 : right;
    return {static_cast<int>(seen.last - seen.first),
            static_cast<int>(i0 + diagonal - seen.first),
            static_cast<int>(left < 0 || left > kFar ? kFar : left),
            static_cast<int>(reach < 0 || reach > kFar ? kFar : reach)};
  }

  FA_HOST_DEVICE bool visible(Index i, Index j) const { return keys(i).contains(j); }

  /// The same mask for queries counted from i0: for a head of which only some rows are computed.
  Mask from_query(Index i0) const {
    Mask shifted = *this;
    shifted.diagonal += i0;
    return shifted;
  }
};

}  // namespace fa
