// The stages' exp for one score, at the edges of float32.
#include "common/attention/exp_minus.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace fa;

TEST_CASE("exp_minus gives minus infinity the weight 0, whatever the maximum is") {
  CHECK(exp_minus(-INFINITY, -INFINITY) == 0.0f);
  CHECK(exp_minus(-INFINITY, 3.0f) == 0.0f);
  CHECK(exp_minus(3.0f, 3.0f) == 1.0f);
  CHECK(exp_minus(-1e30f, -1e30f) == 1.0f);
  CHECK(std::isnan(exp_minus(NAN, 0.0f)));
}
