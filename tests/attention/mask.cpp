// Mask against its definition, key by key.
#include "common/attention/mask.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace fa;

namespace {

/// The contract's words: j ≤ i + diagonal if causal, L before and R behind it in a window.
bool defined_visible(const Mask& m, Index i, Index j) {
  const Index at = i + m.diagonal;
  if (j < 0 || j >= m.Nkv) return false;
  if (m.causal && j > at) return false;
  if (m.left >= 0 && at - j > m.left) return false;
  if (m.right >= 0 && j - at > m.right) return false;
  return true;
}

std::vector<Mask> masks(Index Nq, Index Nkv) {
  std::vector<Mask> result;
  for (const bool causal : {false, true})
    for (const Index left : {-1, 0, 1, 3, 100})
      for (const Index right : {-1, 0, 2, 100})
        result.push_back({Nkv, Nkv - Nq, causal, left, right});
  return result;
}

const std::vector<std::pair<Index, Index>> kShapes = {
    {1, 1}, {5, 5}, {3, 9}, {9, 3}, {1, 7}, {7, 1}, {4, 0}};

/// Calls test(mask, Nq) and counts how often it says no.
template <class Test>
Index wrong(Test test) {
  Index count = 0;
  for (const auto& [Nq, Nkv] : kShapes)
    for (const Mask& mask : masks(Nq, Nkv)) count += !test(mask, Nq);
  return count;
}

}  // namespace

TEST_CASE("Mask::keys holds exactly the keys that the definition shows") {
  CHECK(wrong([](const Mask& mask, Index Nq) {
          bool right = true;
          for (Index i = 0; i < Nq; ++i) {
            const KeyRange keys = mask.keys(i);
            right = right && 0 <= keys.first && keys.first <= keys.last && keys.last <= mask.Nkv;
            for (Index j = -2; j < mask.Nkv + 2; ++j)
              right = right && keys.contains(j) == defined_visible(mask, i, j) &&
                      mask.visible(i, j) == keys.contains(j);
          }
          return right;
        }) == 0);
}

TEST_CASE("The keys of several queries reach from the first's to the last's") {
  CHECK(wrong([](const Mask& mask, Index Nq) {
          bool right = true;
          for (Index i0 = 0; i0 < Nq; ++i0)
            for (Index i1 = i0 + 1; i1 <= Nq; ++i1) {
              const KeyRange keys = mask.keys(i0, i1);
              right = right && 0 <= keys.first && keys.first <= keys.last && keys.last <= mask.Nkv;
              Index first = mask.Nkv, last = 0;  // of the keys that any of them sees
              for (Index i = i0; i < i1; ++i)
                for (Index j = 0; j < mask.Nkv; ++j)
                  if (defined_visible(mask, i, j)) {
                    first = std::min(first, j);
                    last = std::max(last, j + 1);
                  }
              if (first < last) right = right && keys.first <= first && last <= keys.last;
              // No tile more than needed: both ends are seen, but for queries that see nothing.
              if (!mask.keys(i0).empty() && !mask.keys(i1 - 1).empty())
                right = right && keys.first == first && keys.last == last;
            }
          return right;
        }) == 0);
}

TEST_CASE("Neither end of the visible keys moves left from query to query") {
  CHECK(wrong([](const Mask& mask, Index Nq) {
          bool right = true;
          for (Index i = 1; i < Nq; ++i)
            right = right && mask.keys(i - 1).first <= mask.keys(i).first &&
                    mask.keys(i - 1).last <= mask.keys(i).last;
          return right;
        }) == 0);
}

TEST_CASE("A mask counted from query i0 shows the same keys") {
  CHECK(wrong([](const Mask& mask, Index Nq) {
          bool right = true;
          for (Index i0 = 0; i0 < Nq; ++i0)
            for (Index i = i0; i < Nq; ++i)
              for (Index j = 0; j < mask.Nkv; ++j)
                right = right && mask.from_query(i0).visible(i - i0, j) == mask.visible(i, j);
          return right;
        }) == 0);
}

TEST_CASE("The intersection of two ranges holds the keys of both") {
  Index wrong_keys = 0, outside = 0;
  for (Index a0 = 0; a0 < 6; ++a0)
    for (Index a1 = a0; a1 < 6; ++a1)
      for (Index b0 = 0; b0 < 6; ++b0)
        for (Index b1 = b0; b1 < 6; ++b1) {
          const KeyRange a{a0, a1}, b{b0, b1}, both = intersection(a, b);
          outside += both.first < b.first || both.last > b.last || both.first > both.last;
          for (Index j = -1; j < 7; ++j)
            wrong_keys += both.contains(j) != (a.contains(j) && b.contains(j));
        }
  CHECK(wrong_keys == 0);
  CHECK(outside == 0);
}

TEST_CASE("Windows of any width are right, up to 2^62") {
  const Index huge = Index{1} << 62;
  for (const Index wide : {Index{1} << 31, Index{1} << 48, huge}) {
    const Mask mask{10, 4, false, wide, wide};
    for (Index i = 0; i < 6; ++i) {
      CHECK(mask.keys(i).first == 0);
      CHECK(mask.keys(i).last == 10);
    }
  }
}

TEST_CASE("The two drawings in mask.hpp show what Mask does") {
  const auto draw = [](const Mask& mask, Index Nq) {
    std::string text;
    for (Index i = 0; i < Nq; ++i) {
      for (Index j = 0; j < mask.Nkv; ++j) text += mask.visible(i, j) ? 'x' : '.';
      text += '\n';
    }
    return text;
  };
  CHECK(draw({5, 2, true, -1, -1}, 3) == "xxx..\nxxxx.\nxxxxx\n");
  CHECK(draw({5, 0, false, 1, 0}, 5) == "x....\nxx...\n.xx..\n..xx.\n...xx\n");
}
