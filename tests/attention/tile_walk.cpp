// The blocks that stage 3 visits hold every visible (query, key) pair once.
#include "common/attention/tile_walk.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace fa;

namespace {

/// Calls test(mask, i0, i1, Bc) for many masks and tiles, and counts how often it says no.
template <class Test>
Index wrong(Test test) {
  Index count = 0;
  for (const auto& [Nq, Nkv] :
       std::vector<std::pair<Index, Index>>{{1, 1}, {150, 150}, {200, 90}, {70, 300}, {5, 0}})
    for (const bool causal : {false, true})
      for (const Index left : {-1, 0, 20, 500})
        for (const Index right : {-1, 0, 33})
          for (const Index Br : {1, 48, 128, 300})
            for (const Index Bc : {1, 40, 64, 1000})
              for (Index i0 = 0; i0 < Nq; i0 += Br)
                count +=
                    !test(Mask{Nkv, Nkv - Nq, causal, left, right}, i0, std::min(i0 + Br, Nq), Bc);
  return count;
}

}  // namespace

TEST_CASE("The blocks of a tile walk hold each visible pair exactly once") {
  for (const auto& [strip, unit] : std::vector<std::pair<Index, Index>>{{48, 4}, {24, 4}, {1, 1}})
    CHECK(wrong([strip = strip, unit = unit](const Mask& mask, Index i0, Index i1, Index Bc) {
            std::vector<int> visits(static_cast<std::size_t>((i1 - i0) * mask.Nkv));
            for (const KeyTile& tile : tile_walk(mask, i0, i1, Bc, strip, unit)) {
              if (tile.j0 < 0 || tile.j1 > mask.Nkv || tile.j1 - tile.j0 > Bc) return false;
              if (tile.j1 <= tile.j0 || tile.strips.empty()) return false;
              for (const Block& at : tile.strips) {
                if (at.i0 < i0 || at.i1 > i1 || at.i1 <= at.i0 || at.i1 - at.i0 > strip)
                  return false;
                if ((at.i0 - i0) % strip != 0 || (at.j0 - tile.j0) % unit != 0) return false;
                if (at.j0 < tile.j0 || at.j1 > tile.j1 || at.j1 <= at.j0) return false;
                for (Index i = at.i0; i < at.i1; ++i)
                  for (Index j = at.j0; j < at.j1; ++j)
                    ++visits[static_cast<std::size_t>((i - i0) * mask.Nkv + j)];
              }
            }
            for (Index i = i0; i < i1; ++i)
              for (Index j = 0; j < mask.Nkv; ++j) {
                const int times = visits[static_cast<std::size_t>((i - i0) * mask.Nkv + j)];
                if (times > 1 || (times == 0 && mask.visible(i, j))) return false;
              }
            return true;
          }) == 0);
}

TEST_CASE("A query meets its keys in order, and no block is without a visible pair") {
  CHECK(wrong([](const Mask& mask, Index i0, Index i1, Index Bc) {
          std::vector<Index> reached(static_cast<std::size_t>(i1 - i0), -1);
          for (const KeyTile& tile : tile_walk(mask, i0, i1, Bc, 48, 4))
            for (const Block& at : tile.strips) {
              bool any = false;
              for (Index i = at.i0; i < at.i1; ++i) {
                Index& last = reached[static_cast<std::size_t>(i - i0)];
                if (at.j0 <= last) return false;
                last = at.j1 - 1;
                for (Index j = at.j0; j < at.j1; ++j) any = any || mask.visible(i, j);
              }
              if (!any) return false;
            }
          return true;
        }) == 0);
}

TEST_CASE("A block is whole where nothing in it is hidden and it needs no filling up") {
  CHECK(wrong([](const Mask& mask, Index i0, Index i1, Index Bc) {
          for (const KeyTile& tile : tile_walk(mask, i0, i1, Bc, 48, 4))
            for (const Block& at : tile.strips) {
              bool whole = (at.j1 - at.j0) % 4 == 0;
              for (Index i = at.i0; i < at.i1; ++i)
                for (Index j = at.j0; j < at.j1; ++j) whole = whole && mask.visible(i, j);
              if (at.whole != whole) return false;
            }
          return true;
        }) == 0);
}
