// Sizes, head dimensions and head maps. Not the full product: a fixed design in which every pair of
// (Nq, Nkv) occurs, and d, type and mask take turns beside it.
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

const std::vector<Index> kLengths = {
    1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193};
const std::vector<Index> kHeadDims = {1, 2, 3, 7, 16, 40, 64, 72, 80, 96, 128, 200, 256, 300};

struct Masking {
  bool causal;
  Index left, right;
};
const std::vector<Masking> kMasks = {
    {false, -1, -1}, {true, -1, -1}, {false, 20, 7}, {true, 33, -1}, {false, -1, 0}};

template <class T>
const T& turn(const std::vector<T>& list, std::size_t n) {
  return list[n % list.size()];
}

}  // namespace

TEST_CASE("Every pair of Nq and Nkv around the tile sizes is right") {
  std::size_t n = 0;
  for (const Index Nq : kLengths)
    for (const Index Nkv : kLengths) {
      const Masking& mask = turn(kMasks, n);
      const Problem p = with_mask(one_head(Nq, Nkv, turn(kHeadDims, n), turn(kAllTypes, n)),
                                  mask.causal,
                                  mask.left,
                                  mask.right);
      CHECK(check_all_variants(p, "normal", n) == "");
      ++n;
    }
}

TEST_CASE("Every head dimension is right in every type") {
  std::size_t n = 0;
  for (const Index d : kHeadDims)
    for (const DType dtype : kAllTypes) {
      const Problem p = one_head(33, 65, d, dtype);
      CHECK(check_all_variants(p, "normal", ++n) == "");
      CHECK(check_all_variants(with_mask(p, true), "uniform", ++n) == "");
    }
}

TEST_CASE("Ragged shapes are right: three tiles and more, d beside every tile's width",
          "[ragged]") {
  // Also what compute-sanitizer goes over (tests/gpu.sh): every type, mask and tile width, little work.
  std::size_t n = 0;
  for (const DType dtype : kAllTypes)
    for (const Index d : {40, 56, 63, 104, 129, 200})
      for (const Masking& mask : {kMasks[0], kMasks[1], kMasks[2]}) {
        Problem p = with_mask(one_head(150, 101, d, dtype), mask.causal, mask.left, mask.right);
        p.Hq = 2;
        CHECK(check_variants(in_turn(n++, 5), p, "normal", 41) == "");
      }
}

TEST_CASE("No variant is left out of a test because of its d") {
  for (const Index d : kHeadDims)
    for (const DType dtype : kAllTypes) {
      std::size_t take_the_type = 0, grouped = 0;
      for (const Variant& variant : every_variant()) take_the_type += takes(variant, dtype);
      for (const auto& [p, variants] : by_d(one_head(3, 3, d, dtype), every_variant()))
        for (const Variant& variant : variants) grouped += takes_d(variant, p.d);
      CHECK(grouped == take_the_type);
    }
}

TEST_CASE("Every head map is right: MHA, GQA and MQA, in batches") {
  const std::vector<std::pair<Index, Index>> head_maps = {
      {1, 1}, {2, 2}, {6, 2}, {10, 2}, {8, 1}, {12, 12}, {9, 3}, {33, 11}};
  std::size_t n = 0;
  for (const auto& [Hq, Hkv] : head_maps)
    for (const Index B : {1, 3}) {
      Problem p = with_mask(one_head(19, 37, 24, turn(kAllTypes, n)), n % 2 == 0);
      p.B = B;
      p.Hq = Hq;
      p.Hkv = Hkv;
      CHECK(check_all_variants(p, "normal", ++n) == "");
    }
}

TEST_CASE("Scores that rise, fall or are far below zero are right over many tiles") {
  for (const std::string pattern : {"stairs-up", "stairs-down", "all-low"})
    for (const DType dtype : kAllTypes)
      for (const bool causal : {false, true})
        CHECK(check_all_variants(with_mask(one_head(70, 1300, 40, dtype), causal), pattern, 5) ==
              "");
}

TEST_CASE("Any finite scale is right: negative, zero, large") {
  for (const float scale : {-1.0f, -0.125f, 0.0f, 1e-30f, 3.0f, 100.0f, 1e3f, -1e4f, 1e6f})
    for (const DType dtype : kAllTypes) {
      Problem p = with_mask(one_head(40, 70, 32, dtype), true);
      p.scale = scale;
      CHECK(check_all_variants(p, "normal", 6) == "");
    }
}
