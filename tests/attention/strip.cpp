// Strips and panels: what is loaded, their products, and the softmax's operations on a strip.
#include "common/attention/strip.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace fa;

namespace {

/// A matrix of small whole numbers, whose products are exact in float32 in any order.
template <class T>
struct Whole {
  std::vector<T> cells;
  Matrix<const T> view;

  Whole(Index rows, Index cols, Index seed) {
    for (Index n = 0; n < rows * cols; ++n) cells.push_back(T(float((n * 37 + seed) % 17 - 8)));
    view = {cells.data(), rows, cols, cols};
  }
};

/// How many elements of a strip are not factor · Σ_x A[i0 + i][x] · B[x][j] for queries [i0, i1).
template <class A, class B>
Index wrong(const Strip& C, Index i0, Index i1, Index cols, Index depth, float factor, A a, B b) {
  Index count = 0;
  for (Index i = i0; i < i1; ++i)
    for (Index j = 0; j < cols; ++j) {
      float sum = 0;
      for (Index x = 0; x < depth; ++x) sum += a(i, x) * b(x, j);
      count += C.row(i - i0)[j] != factor * sum;
    }
  return count;
}

template <class T>
void check_products(Index Nq, Index Nkv, Index d) {
  INFO("Nq=" << Nq << " Nkv=" << Nkv << " d=" << d);
  const Whole<T> Q(Nq + 3, d, 1), K(Nkv + 2, d, 5), V(Nkv + 2, d, 11);
  StripTile q_tile(Nq, d), s_tile(kStrip, Nkv), o_tile(Nq, d);
  PanelTile k_tile(d, Nkv), v_tile(Nkv, d);
  q_tile.load(Q.view, 3, Nq + 3);
  o_tile.clear(3, Nq + 3);
  k_tile.load_transposed(K.view, 2, Nkv + 2);
  v_tile.load(V.view, 2, Nkv + 2);
  for (Index i0 = 3; i0 < Nq + 3; i0 += kStrip)
    for (const Index skip : {Index(0), kPanel}) {  // the block's first key
      const Index j0 = 2 + skip, j1 = Nkv + 2, i1 = std::min(i0 + kStrip, Nq + 3);
      if (j0 >= j1) continue;
      const Strip S = s_tile.product(0.5f, q_tile.strip(i0), k_tile.columns(j0, j1));
      CHECK(S.cols == round_up(j1 - j0, kPanel));
      const auto q = [&](Index i, Index x) { return float(Q.view[i][x]); };
      const auto k = [&](Index x, Index j) { return float(K.view[j0 + j][x]); };
      CHECK(wrong(S, i0, i1, j1 - j0, d, 0.5f, q, k) == 0);

      for (Index i = i0; i < i1; ++i) S.row(i - i0).hide_all_but({j0 + 1, j1}, j0);
      for (Index i = i0; i < i1; ++i) CHECK(S.row(i - i0)[0] == -INFINITY);
      for (Index j = j1 - j0; j < S.cols; ++j) CHECK(S.row(0)[j] == -INFINITY);
      for (Index j = 0; j < S.cols; ++j)
        for (Index r = 0; r < S.height; ++r) S[j][r] = j < j1 - j0 ? float((j + r) % 3) : 0.0f;
      o_tile.clear(3, Nq + 3);
      const auto p = [&](Index i, Index j) { return float((j + i - i0) % 3); };
      const auto v = [&](Index j, Index x) { return float(V.view[j0 + j][x]); };
      o_tile.strip(i0).add_product(1, S, v_tile.rows(j0, j1));
      CHECK(wrong(o_tile.strip(i0), i0, i1, d, j1 - j0, 1, p, v) == 0);
      o_tile.strip(i0).add_product(1, S, v_tile.rows(j0, j1));
      CHECK(wrong(o_tile.strip(i0), i0, i1, d, j1 - j0, 2, p, v) == 0);
      std::vector<float> row(static_cast<std::size_t>(d));
      o_tile.row(i1 - 1).copy_to(row.data(), d);
      for (Index x = 0; x < d; ++x)
        CHECK(row[static_cast<std::size_t>(x)] == o_tile.strip(i0).row(i1 - 1 - i0)[x]);
    }
}

/// A strip of its own: `height` rows, all of them the same scores.
struct TestStrip : Strip {
  TestStrip(Index rows, const std::vector<float>& scores)
      : Strip{nullptr, rows, static_cast<Index>(scores.size())}, cells(rows, cols) {
    data = cells.data;
    for (Index j = 0; j < cols; ++j)
      std::fill_n((*this)[j], rows, scores[static_cast<std::size_t>(j)]);
  }
  Scratch<float> cells;
};

}  // namespace

TEST_CASE("Products of strips and panels are the products of the matrices", "[types]") {
  for (const Index Nq : {Index(1), kLanes, kStrip, kStrip + 1, 2 * kStrip + kLanes + 3})
    for (const Index Nkv : {1, 4, 7, 64, 133})
      for (const Index d : {1, 3, 8, 41}) {
        check_products<float>(Nq, Nkv, d);
        check_products<float16>(Nq, Nkv, d);
        check_products<bfloat16>(Nq, Nkv, d);
      }
}

TEST_CASE("A tile that is loaded again keeps nothing of what it held", "[types]") {
  const std::vector<float> nan(30 * 9, NAN);
  const Matrix<const float> bad{nan.data(), 30, 9, 9};
  const Whole<float> good(30, 7, 3);
  StripTile q_tile(30, 9), s_tile(kStrip, 30);
  PanelTile k_tile(9, 30);
  q_tile.load(bad, 0, 30);
  k_tile.load_transposed(bad, 0, 30);
  s_tile.product(1, q_tile.strip(0), k_tile.columns(0, 30));
  q_tile.load(good.view, 0, 1);
  k_tile.load_transposed(good.view, 0, 5);
  const Strip S = s_tile.product(1, q_tile.strip(0), k_tile.columns(0, 5));
  CHECK(S.height == kLanes);
  CHECK(S.cols == 8);
  for (Index j = 0; j < S.cols; ++j)
    for (Index r = 0; r < S.height; ++r) CHECK(std::isfinite(S[j][r]));
}

TEST_CASE("A strip's weights are exp(s - m) to 3 units in the last place, and never denormal",
          "[types]") {
  std::vector<float> s;
  for (float x = 0; x > -87; x -= 0.00371f) s.push_back(x);
  s.resize(s.size() / 4 * 4);
  for (Index height = kLanes; height <= kStrip; height += kLanes) {
    const TestStrip P(height, s);
    const std::vector<float> m(kStrip, 0.0f);
    float sum[kStrip];
    exp_minus_and_sum(P, m.data(), sum);
    for (Index i = 0; i < height; ++i) {
      Index wrong = 0;
      double right_sum = 0;
      for (Index j = 0; j < P.cols; ++j) {
        const double right = std::exp(static_cast<double>(s[static_cast<std::size_t>(j)]));
        wrong += !(std::abs(static_cast<double>(P.row(i)[j]) - right) < 3 * 0x1p-23 * right);
        right_sum += right;
      }
      CHECK(wrong == 0);
      CHECK(std::abs(static_cast<double>(sum[i]) - right_sum) <
            static_cast<double>(s.size()) * 0x1p-24 * right_sum);
    }
  }

  const TestStrip far(kLanes, {-87.5f, -88, -89, -100, -103.9f, -1e4f, -1e30f, -INFINITY});
  const std::vector<float> m(kStrip, 0.0f);
  float sum[kStrip];
  exp_minus_and_sum(far, m.data(), sum);
  for (Index j = 0; j < 8; ++j) CHECK((far[j][0] == 0.0f || far[j][0] >= 0x1p-126f));
  CHECK(far[5][0] == 0.0f);
  CHECK(far[7][0] == 0.0f);
}

TEST_CASE("Each row of a strip has its own maximum, weights and sum", "[types]") {
  for (Index height = kLanes; height <= kStrip; height += kLanes) {
    const TestStrip S(height, std::vector<float>(12, -5.0f));
    for (Index i = 0; i < height; ++i) S[i % 12][i] = float(i);
    float max[kStrip], sum[kStrip];
    row_max(S, max);
    for (Index i = 0; i < height; ++i) CHECK(max[i] == float(i));
    exp_minus_and_sum(S, max, sum);
    for (Index i = 0; i < height; ++i) {
      CHECK(S[i % 12][i] == 1.0f);
      CHECK(std::abs(sum[i] - (1 + 11 * std::exp(-5 - float(i)))) < 1e-6f);
    }
  }
}

TEST_CASE("A strip keeps a NaN where it is, and that row alone sums to NaN", "[types]") {
  for (const Index bad : {0, 1, 17, 39}) {
    const TestStrip S(kStrip, std::vector<float>(40, -2.0f));
    S[bad][1] = NAN;
    float max[kStrip], sum[kStrip];
    row_max(S, max);
    for (float& m : max) CHECK(m == -2.0f);
    exp_minus_and_sum(S, max, sum);
    for (Index i = 0; i < kStrip; ++i) {
      CHECK(std::isnan(sum[i]) == (i == 1));
      for (Index j = 0; j < 40; ++j) CHECK(std::isnan(S[j][i]) == (i == 1 && j == bad));
    }
  }
}

TEST_CASE("Where all scores of a row are minus infinity its weights are 0, not NaN", "[types]") {
  const TestStrip S(kStrip, std::vector<float>(16, -INFINITY));
  float max[kStrip], sum[kStrip];
  row_max(S, max);
  exp_minus_and_sum(S, max, sum);
  for (Index i = 0; i < kStrip; ++i) {
    CHECK(max[i] == -INFINITY);
    CHECK(sum[i] == 0.0f);
    for (Index j = 0; j < 16; ++j) CHECK(S[j][i] == 0.0f);
  }
}

TEST_CASE("The maximum itself has weight exactly 1", "[types]") {
  for (const float m : {0.0f, 1.5f, -70000.0f, 133120.0f * 1e6f, -1e30f}) {
    const TestStrip S(kStrip, std::vector<float>(36, m));
    const std::vector<float> all(kStrip, m);
    float sum[kStrip];
    exp_minus_and_sum(S, all.data(), sum);
    for (const float each : sum) CHECK(each == 36.0f);
  }
}
