// The stages' exp: for one score and for a row, at the edges of float32.
#include "common/attention/exp_minus.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace fa;

TEST_CASE("exp_minus gives minus infinity the weight 0, whatever the maximum is") {
  CHECK(exp_minus(-INFINITY, -INFINITY) == 0.0f);
  CHECK(exp_minus(-INFINITY, 3.0f) == 0.0f);
  CHECK(exp_minus(3.0f, 3.0f) == 1.0f);
  CHECK(exp_minus(-1e30f, -1e30f) == 1.0f);
  CHECK(std::isnan(exp_minus(NAN, 0.0f)));
}

TEST_CASE("A row of weights is exp(s - m) to 3 units in the last place, and never denormal",
          "[types]") {
  std::vector<float> s;
  for (float x = 0; x > -87; x -= 0.00371f) s.push_back(x);
  std::vector<float> p = s;
  const float sum = exp_minus_and_sum(p.data(), static_cast<Index>(p.size()), 0);
  double worst = 0, right_sum = 0;
  for (std::size_t j = 0; j < s.size(); ++j) {
    const double right = std::exp(static_cast<double>(s[j]));
    worst = std::max(worst, std::abs(static_cast<double>(p[j]) - right) / right);
    right_sum += right;
  }
  CHECK(worst < 3 * 0x1p-23);
  CHECK(std::abs(static_cast<double>(sum) - right_sum) <
        static_cast<double>(s.size()) * 0x1p-24 * right_sum);

  std::vector<float> far = {-87.5f, -88, -89, -100, -103.9f, -1e4f, -1e30f, -INFINITY};
  exp_minus_and_sum(far.data(), static_cast<Index>(far.size()), 0);
  for (const float weight : far) CHECK((weight == 0.0f || weight >= 0x1p-126f));
  CHECK(far[7] == 0.0f);
  CHECK(far[5] == 0.0f);
}

TEST_CASE("A row of weights keeps a NaN where it is, and sums to NaN", "[types]") {
  for (const std::size_t bad : {0u, 1u, 17u, 39u}) {
    std::vector<float> s(40, -2.0f);
    s[bad] = NAN;
    CHECK(std::isnan(exp_minus_and_sum(s.data(), 40, -1.0f)));
    for (std::size_t j = 0; j < s.size(); ++j) CHECK(std::isnan(s[j]) == (j == bad));
  }
}

TEST_CASE("A row of scores that are all minus infinity has weights 0, not NaN", "[types]") {
  for (const Index count : {1, 15, 16, 33}) {
    std::vector<float> s(static_cast<std::size_t>(count), -INFINITY);
    CHECK(exp_minus_and_sum(s.data(), count, -INFINITY) == 0.0f);
    CHECK(s == std::vector<float>(static_cast<std::size_t>(count), 0.0f));
  }
  CHECK(exp_minus_and_sum(nullptr, 0, 0.0f) == 0.0f);
}

TEST_CASE("The maximum itself has weight exactly 1", "[types]") {
  for (const float m : {0.0f, 1.5f, -70000.0f, 133120.0f * 1e6f, -1e30f}) {
    std::vector<float> s(37, m);
    CHECK(exp_minus_and_sum(s.data(), 37, m) == 37.0f);
  }
}
