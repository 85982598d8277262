// NaN and infinity: they reach every row that sees them, and no other.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

Problem causal_head(DType dtype, Index d) { return with_mask(one_head(60, 90, d, dtype), true); }

bool all_finite(const Output& output, Index i) {
  bool finite = std::isfinite(output.LSE()[i]);
  for (Index x = 0; x < output.O().d; ++x)
    finite = finite && std::isfinite(output.O().at(0, 0, i, x));
  return finite;
}

bool none_finite(const Output& output, Index i) {
  bool any = std::isfinite(output.LSE()[i]);
  for (Index x = 0; x < output.O().d; ++x) any = any || std::isfinite(output.O().at(0, 0, i, x));
  return !any;
}

template <class Test>
void for_all(Test test, const std::vector<Variant>& variants = all_variants()) {
  for (const DType dtype : kAllTypes)
    for (const Variant& variant : variants) {
      if (!takes(variant, dtype)) continue;
      INFO(variant.name << ", " << name_of(dtype));
      test(variant, causal_head(dtype, d_for(variant, 24)));
    }
}

/// The first `count` keys' scores are −inf, in all rows. Those rows that have a finite one are right.
void check_after_minus_infinity(const Variant& variant, const Problem& p, Index count) {
  const Inputs inputs = make_inputs(p, "normal", 25);
  for (Index i = 0; i < p.Nq; ++i) set(inputs.Q.view(), 0, 0, i, 0, 1);
  for (Index j = 0; j < count; ++j) set(inputs.K.view(), 0, 0, j, 0, -INFINITY);
  const Expected expected = expect(p, inputs.view());
  const Output output = run(variant, p, inputs.view());
  INFO("the first " << count << " keys have score -inf");
  for (Index i = 0; i < p.Nq; ++i) {
    const OracleRow& row = expected.rows[static_cast<std::size_t>(i)];
    if (!std::isfinite(row.LSE)) continue;  // all that the row sees is -inf
    // The bound of tolerance.hpp is infinite here, as ‖k‖ is.
    const double lse = 1e-5 + (variant.stage.leeway.P_in_16_bits ? roundoff_of(p.dtype) : 0);
    double worst = std::abs(static_cast<double>(output.LSE()[i]) - row.LSE) / lse;
    for (Index x = 0; x < p.d; ++x) {
      const double allowed = 1e-5 + 2 * roundoff_of(p.dtype) * row.max_v;
      const double error = std::abs(static_cast<double>(output.O().at(0, 0, i, x)) -
                                    row.O[static_cast<std::size_t>(x)]);
      worst = worse(worst, error / allowed);
    }
    INFO("row " << i);
    CHECK(worst <= 1);
  }
}

}  // namespace

TEST_CASE("A NaN in a query makes its own row NaN and no other") {
  for_all([](const Variant& variant, const Problem& p) {
    const Inputs inputs = make_inputs(p, "normal", 21), broken = make_inputs(p, "normal", 21);
    for (const Index bad : {0, 33, 59}) set(broken.Q.view(), 0, 0, bad, 5, NAN);
    const Output clean = run(variant, p, inputs.view()), output = run(variant, p, broken.view());
    for (Index i = 0; i < p.Nq; ++i) {
      const bool bad = i == 0 || i == 33 || i == 59;
      INFO("row " << i);
      CHECK((bad ? none_finite(output, i) : same_row(output, 0, i, clean, 0, i, 0)));
    }
  });
}

TEST_CASE("A NaN in a key makes every row NaN that sees it, and no other") {
  for_all([](const Variant& variant, const Problem& p) {
    for (const Index j : {0, 31, 70, 89}) {
      const Inputs inputs = make_inputs(p, "normal", 22), broken = make_inputs(p, "normal", 22);
      set(broken.K.view(), 0, 0, j, 5, NAN);
      const Output clean = run(variant, p, inputs.view()), output = run(variant, p, broken.view());
      for (Index i = 0; i < p.Nq; ++i) {
        INFO("key " << j << ", row " << i);
        CHECK((sees(p, i, j) ? none_finite(output, i) : same_row(output, 0, i, clean, 0, i, 0)));
      }
    }
  });
}

TEST_CASE("A NaN or infinity in V reaches its column of every row that sees it") {
  for_all([](const Variant& variant, const Problem& p) {
    const Index j = 70, column = 3,
                Br = std::max<Index>(1, variant.stage.tile_for(p, variant.tile).Br);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const Inputs inputs = make_inputs(p, "normal", 23), broken = make_inputs(p, "normal", 23);
      set(broken.V.view(), 0, 0, j, column, bad);
      const Output clean = run(variant, p, inputs.view()), output = run(variant, p, broken.view());
      for (Index i = 0; i < p.Nq; ++i) {
        INFO(bad << " in V, row " << i);
        if (sees(p, i, j)) {
          CHECK_FALSE(std::isfinite(output.O().at(0, 0, i, column)));
          CHECK(output.O().at(0, 0, i, 4) == clean.O().at(0, 0, i, 4));
          CHECK(output.LSE()[i] == clean.LSE()[i]);
        } else if (const Index last_of_tile = std::min(i / Br * Br + Br, p.Nq) - 1;
                   !sees(p, last_of_tile, j)) {
          CHECK(same_row(output, 0, i, clean, 0, i, 0));  // no row of its tile sees the key
        }
      }
    }
  });
}

TEST_CASE("Where the definition is not finite, no stage invents a number") {
  for_all([](const Variant& variant, const Problem& p) {
    for (const float bad : {INFINITY, -INFINITY}) {
      const Inputs broken = make_inputs(p, "normal", 24);
      set(broken.K.view(), 0, 0, 20, 5, bad);  // scores of both signs, and infinite
      set(broken.Q.view(), 0, 0, 50, 2, bad);  // a row of infinite scores
      CHECK(check(variant, p, broken.view(), expect(p, broken.view())) == "");
    }
  });
}

TEST_CASE("A score of -inf is a weight of 0, also before the first finite score") {
  for_all(
      [](const Variant& variant, const Problem& p) {
        // Up to the first tiles in full; and so that other tiles lie between them and the last.
        for (const Index count : {1, 32, 85}) check_after_minus_infinity(variant, p, count);
        check_after_minus_infinity(variant, one_head(3, 400, p.d, p.dtype), 64);
        check_after_minus_infinity(variant, one_head(3, 400, p.d, p.dtype), 200);
      },
      every_variant());
}

// scale · s stays within float32, just so, and what is finite there must come out finite. Numbers of this
// size are bfloat16's alone; in float16 the scale makes up for it.
TEST_CASE("Scores near float32's lowest are weighed like any others") {
  struct Run {
    DType dtype;
    float scale, q, k;                  // of column 0; the other columns of Q and K are 0
    Index Nkv, none_before, none_from;  // keys before and from there have score −inf
  };
  for (const Run& r : {Run{DType::bfloat16, 1, 1.5e19f, -1.5e19f, 64, 0, 64},
                       Run{DType::float16, 2.3e34f, 100, -100, 64, 0, 64},
                       Run{DType::bfloat16, 1, 1e19f, -2.2e19f, 300, 200, 300},
                       Run{DType::bfloat16, 1, 1e19f, -2.2e19f, 320, 200, 256},
                       Run{DType::bfloat16, 2e-38f, 1e19f, 1e19f, 64, 0, 64},
                       Run{DType::bfloat16, 0, 1e19f, 1e19f, 64, 0, 64}})
    for (const Variant& variant : every_variant()) {
      if (!takes(variant, r.dtype)) continue;
      Problem p = one_head(64, r.Nkv, d_for(variant, 24), r.dtype);
      p.scale = r.scale;
      const Inputs inputs = make_inputs(p, "normal", 27);
      const auto column_0_alone = [&](const AnyTensor& X, Index row, float value) {
        for (Index x = 0; x < p.d; ++x) set(X, 0, 0, row, x, x == 0 ? value : 0);
      };
      for (Index i = 0; i < p.Nq; ++i) column_0_alone(inputs.Q.view(), i, r.q);
      for (Index j = 0; j < p.Nkv; ++j)
        column_0_alone(inputs.K.view(), j, j < r.none_before || j >= r.none_from ? -INFINITY : r.k);
      const Output output = run(variant, p, inputs.view());
      // All weights that aren't 0 are the same: O is V's mean.
      const double score = double(r.scale) * inputs.Q.view().at(0, 0, 0, 0) *
                           inputs.K.view().at(0, 0, r.none_before, 0);
      const double LSE = score + std::log(double(r.none_from - r.none_before));
      INFO(variant.name << ", scale " << r.scale << ", " << r.Nkv << " keys");
      CHECK(std::abs(output.LSE()[5] - LSE) <= 1e-4 + 1e-6 * std::abs(LSE));
      double mean = 0;
      for (Index j = r.none_before; j < r.none_from; ++j)
        mean += inputs.V.view().at(0, 0, j, 3) / double(r.none_from - r.none_before);
      CHECK(std::abs(output.O().at(0, 0, 5, 3) - mean) <= 0.01);
    }
}

TEST_CASE("Rows are finite where all they see is finite") {
  for_all([](const Variant& variant, const Problem& p) {
    const Output output = run(variant, p, make_inputs(p, "normal", 26).view());
    for (Index i = 0; i < p.Nq; ++i) CHECK(all_finite(output, i));
  });
}
