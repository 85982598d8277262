// The checker must find every kind of wrong output, and say what, how much and where.
#include <cmath>
#include <cstring>
#include <set>

#include "common/harness/compare.hpp"
#include "common/harness/inputs.hpp"
#include "tests/catch.hpp"

using namespace fa;

namespace {

struct Fixture {
  Problem problem;
  Inputs inputs;
  Expected expected;
};

Fixture fixture(DType dtype = DType::float32, bool causal = false) {
  Problem p;
  p.Hq = p.Hkv = 2;
  p.Nq = 20;
  p.Nkv = 30;
  p.d = 32;
  p.dtype = dtype;
  p.scale = default_scale(p.d);
  p.causal = causal;
  Inputs inputs = make_inputs(p, "normal", 31);
  Expected expected = expect(p, inputs.view());
  return {p, std::move(inputs), std::move(expected)};
}

/// One query of one head.
Problem one_row(Index Nkv, Index d) {
  Problem p;
  p.Nq = 1;
  p.Nkv = Nkv;
  p.d = d;
  p.scale = default_scale(d);
  return p;
}

void put(const Output& output, Index element, double value) {
  dispatch(output.O().dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(output.O().data)[element] = T(static_cast<float>(value));
  });
}

/// The oracle's own answer, rounded to the type: right.
Output right_output(const Fixture& f) {
  Output output(f.problem);
  for (std::size_t row = 0; row < f.expected.rows.size(); ++row) {
    for (Index x = 0; x < f.problem.d; ++x)
      put(output,
          static_cast<Index>(row) * f.problem.d + x,
          f.expected.rows[row].O[static_cast<std::size_t>(x)]);
    output.LSE()[row] = static_cast<float>(f.expected.rows[row].LSE);
  }
  return output;
}

OracleCheck outcome(const Fixture& f, const Output& output) {
  return check_against_oracle(f.problem, f.expected, output);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::vector<DType> kTypes = {DType::float32, DType::float16, DType::bfloat16};

}  // namespace

TEST_CASE("The right output passes") {
  for (const DType dtype : kTypes)
    for (const bool causal : {false, true}) {
      const Fixture f = fixture(dtype, causal);
      CHECK(outcome(f, right_output(f)).failure() == "");
      CHECK(outcome(f, right_output(f)).ok());
    }
}

TEST_CASE("A NaN or infinity anywhere in the output is found, counted and named") {
  for (const DType dtype : kTypes) {
    const Fixture f = fixture(dtype);
    const Index last = 2 * 20 * 32 - 1;
    const std::vector<std::pair<Index, std::string>> places = {{0, "O[b=0 h=0 i=0 x=0]"},
                                                               {last / 2 + 8, "O[b=0 h=1 i=0 x=7]"},
                                                               {last, "O[b=0 h=1 i=19 x=31]"}};
    for (const double bad :
         {static_cast<double>(NAN), static_cast<double>(INFINITY), static_cast<double>(-INFINITY)})
      for (const auto& [element, name] : places) {
        const Output output = right_output(f);
        put(output, element, bad);
        const OracleCheck check = outcome(f, output);
        INFO(bad << " at " << name << ": " << check.failure());
        CHECK_FALSE(check.ok());
        CHECK(check.O.wrong == 1);
        CHECK(check.O.wrong_nonfinite == 1);
        CHECK(has(check.failure(), "1 of 1280 elements wrong"));
        CHECK(has(check.failure(), name));
      }
    const Output all = right_output(f);
    for (Index element = 0; element <= last; ++element) put(all, element, NAN);
    CHECK(outcome(f, all).O.wrong == last + 1);
    CHECK(has(outcome(f, all).failure(), "1280 of 1280"));
  }
}

TEST_CASE("A NaN in LSE is found and named") {
  const Fixture f = fixture();
  Output output = right_output(f);
  output.LSE()[25] = NAN;
  CHECK(has(outcome(f, output).failure(), "1 of 40 elements wrong"));
  CHECK(has(outcome(f, output).failure(), "LSE[b=0 h=1 i=5]"));
}

TEST_CASE("Infinity against infinity is not a pass") {
  // The oracle is finite, two stages agree on infinity: each is wrong.
  const Fixture f = fixture();
  const Output output = right_output(f), previous = right_output(f);
  put(output, 40, INFINITY);
  put(previous, 40, INFINITY);
  CHECK_FALSE(outcome(f, output).ok());
  CHECK_FALSE(outcome(f, previous).ok());
}

TEST_CASE("A number is wrong where the definition gives none, and NaN or infinity is right there") {
  Fixture f = fixture();
  static_cast<float*>(f.inputs.K.view().data)[3] = NAN;
  f.expected = expect(f.problem, f.inputs.view());
  Output output = right_output(f);
  CHECK(outcome(f, output).ok());
  put(output, 5, 0.25);  // row 0 of head 0 sees key 0
  CHECK_FALSE(outcome(f, output).ok());
  put(output, 5, INFINITY);
  CHECK(outcome(f, output).ok());
}

TEST_CASE("Only -inf is right as the LSE of a row without keys, and only 0 as its O") {
  Problem p = fixture(DType::float32, true).problem;
  p.Nkv = 5;  // queries 0 to 14 see nothing
  Fixture narrow{p, make_inputs(p, "normal", 1), {}};
  narrow.expected = expect(p, narrow.inputs.view());
  Output output = right_output(narrow);
  CHECK(outcome(narrow, output).ok());
  for (const float wrong : {0.0f, INFINITY, NAN, -1e30f}) {
    output.LSE()[3] = wrong;
    INFO("LSE = " << wrong);
    CHECK_FALSE(outcome(narrow, output).ok());
  }
  output.LSE()[3] = -INFINITY;
  put(output, 3 * p.d, 1e-6);
  CHECK_FALSE(outcome(narrow, output).ok());
}

TEST_CASE("Twice the tolerance is found, half of it passes, element by element") {
  for (const DType dtype : kTypes) {
    const Fixture f = fixture(dtype);
    Index missed = 0, false_alarms = 0;
    for (const Index element : {0, 77, 640, 1279}) {
      const OracleRow& row = f.expected.rows[static_cast<std::size_t>(element / f.problem.d)];
      const Index x = element % f.problem.d;
      const double O = row.O[static_cast<std::size_t>(x)],
                   tolerance = tolerance_O(row, x, f.problem.d, dtype);
      for (const double sign : {-1.0, 1.0}) {
        // In 16 bits the values near O are further apart than half a tolerance: the smaller
        // deviation is checked in float32 only, and the larger is 3 tolerances, less rounding.
        Output output = right_output(f);
        put(output, element, O + sign * (dtype == DType::float32 ? 2 : 3) * tolerance);
        missed += outcome(f, output).O.wrong != 1;
        if (dtype != DType::float32) continue;
        put(output, element, O + sign * 0.5 * tolerance);
        false_alarms += !outcome(f, output).ok();
      }
      Output output = right_output(f);
      const double allowed = tolerance_LSE(row, f.problem.d, dtype);
      output.LSE()[element / f.problem.d] = static_cast<float>(row.LSE + 2 * allowed);
      missed += outcome(f, output).LSE.wrong != 1;
      output.LSE()[element / f.problem.d] = static_cast<float>(row.LSE + 0.5 * allowed);
      false_alarms += !outcome(f, output).ok();
    }
    CHECK(missed == 0);
    CHECK(false_alarms == 0);
  }
}

TEST_CASE("Scores of random data are allowed √d roundings, sums of equal products what they lose") {
  const auto roundings = [](const OracleRow& row, Index d) {
    return score_error(row, d) / row.score_size * 0x1p24;
  };
  for (const Index d : {16, 40, 64, 128, 256})
    for (const DType dtype : kTypes)
      for (const char* pattern : {"normal", "uniform"}) {
        Problem p = one_row(200, d);
        p.Nq = 50;
        p.dtype = dtype;
        const Inputs inputs = make_inputs(p, pattern, 7);
        for (const OracleRow& row : expect(p, inputs.view()).rows)
          CHECK(roundings(row, d) <= 1.001 * std::sqrt(static_cast<double>(d)));
      }
  const Problem p = one_row(5, 128);
  const Inputs inputs = make_inputs(p, "constant", 1);
  CHECK(roundings(expect(p, inputs.view()).rows[0], 128) < 11.4);  // √128: 1 + 1 + … is exact
  for (const AnyTensor& X : {inputs.Q.view(), inputs.K.view()})
    for (Index row = 0; row < X.N; ++row)
      for (Index x = 0; x < X.d; ++x) X.as<float>().head(0, 0)[row][x] = 16.41f;
  const double lossy = roundings(expect(p, inputs.view()).rows[0], 128);
  CHECK(lossy > 40);  // the sum loses some 32
  CHECK(lossy <= 128);
}

TEST_CASE("The worst element is the one named worst") {
  const Fixture f = fixture();
  const Output output = right_output(f);
  put(output, 10, 7);
  put(output, 500, -900);
  put(output, 900, 8);
  const OracleCheck check = outcome(f, output);
  CHECK(check.O.wrong == 3);
  CHECK(check.O.first_wrong.i == 0);
  CHECK(check.O.first_wrong.x == 10);
  CHECK(check.O.worst.got == -900);
  CHECK(check.O.max_error > 899);
}

TEST_CASE("In 16 bits, errors that each pass alone fail FlashAttention's rule for the whole") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Fixture f = fixture(dtype);
    const OracleCheck right = outcome(f, right_output(f));
    CHECK(right.rule.applies);
    double definition = 0;  // what the definition errs with P and O in 16 bits
    for (const OracleRow& row : f.expected.rows)
      for (std::size_t x = 0; x < row.O.size(); ++x)
        definition = std::max(definition, std::abs(row.O_rounded[x] - row.O[x]));
    CHECK(right.rule.allowed == 2 * definition + 1e-5);
    CHECK(right.rule.ok());
    const Output output = right_output(f);
    put(output, 0, f.expected.rows[0].O[0] + 2.5 * right.rule.allowed);
    CHECK_FALSE(outcome(f, output).rule.ok());
  }
  CHECK_FALSE(outcome(fixture(), right_output(fixture())).rule.applies);
}

TEST_CASE("Elements that nothing wrote are counted, in O and in LSE") {
  for (const DType dtype : kTypes) {
    const Fixture f = fixture(dtype);
    const Output untouched(f.problem);
    CHECK(untouched.unwritten() == 1280 + 40);
    CHECK_FALSE(outcome(f, untouched).ok());
    CHECK(has(outcome(f, untouched).failure(), "1320 elements of the output were never written"));
    Output all_but_one = right_output(f);
    const Output poison(f.problem);
    std::memcpy(static_cast<char*>(all_but_one.O().data) + 33 * bytes_of(dtype),
                poison.O().data,
                static_cast<std::size_t>(bytes_of(dtype)));
    CHECK(all_but_one.unwritten() == 1);
    all_but_one.LSE()[39] = poison.LSE()[0];
    CHECK(all_but_one.unwritten() == 2);
  }
}

TEST_CASE("A row that the oracle didn't look at is still found unwritten") {
  Fixture f = fixture();
  Output output = right_output(f);
  const Output poison(f.problem);
  output.LSE()[7] = poison.LSE()[0];
  f.expected = expect(f.problem, f.inputs.view(), {0, 19});
  CHECK(has(outcome(f, output).failure(), "1 elements of the output were never written"));
}

TEST_CASE("One element written beside the output is found, before it and behind it") {
  for (const DType dtype : kTypes) {
    const Fixture f = fixture(dtype);
    for (const Index element : {-1, -32, 1280, 1280 + 31}) {
      const Output output = right_output(f);
      CHECK(output.guards_intact());
      put(output, element, 0);
      CHECK_FALSE(output.guards_intact());
      CHECK(has(outcome(f, output).failure(), "guard"));
    }
    for (const Index row : {-1, 40}) {
      Output output = right_output(f);
      output.LSE()[row] = 0;
      CHECK_FALSE(outcome(f, output).ok());
    }
  }
}

TEST_CASE("Of 65,536 keys, 128 that were left out are missed, in O and in LSE") {
  Problem p = one_row(65536, 16);
  const Inputs inputs = make_inputs(p, "normal", 3);
  const Expected expected = expect(p, inputs.view());
  p.Nkv -= 128;
  const std::vector<OracleRow> fewer =
      oracle(p, inputs.Q.view(), inputs.K.view(), inputs.V.view(), 0, 0, {0});
  p.Nkv += 128;
  const Output output(p);
  for (Index x = 0; x < p.d; ++x) put(output, x, fewer[0].O[static_cast<std::size_t>(x)]);
  Output right(p);
  for (Index x = 0; x < p.d; ++x) put(right, x, expected.rows[0].O[static_cast<std::size_t>(x)]);
  right.LSE()[0] = static_cast<float>(expected.rows[0].LSE);
  CHECK(check_against_oracle(p, expected, right).ok());
  CHECK(check_against_oracle(p, expected, output).O.wrong > p.d / 2);
  right.LSE()[0] = static_cast<float>(fewer[0].LSE);
  CHECK(check_against_oracle(p, expected, right).LSE.wrong == 1);
}

TEST_CASE("Huge scores make one key certain, not every answer right") {
  for (const float scale : {1e5f, 1e20f}) {
    Problem p = one_row(50, 8);
    p.scale = scale;
    const Inputs inputs = make_inputs(p, "normal", 5);
    const Expected expected = expect(p, inputs.view());
    Output output(p);
    for (Index x = 0; x < p.d; ++x) put(output, x, expected.rows[0].O[static_cast<std::size_t>(x)]);
    output.LSE()[0] = static_cast<float>(expected.rows[0].LSE);
    CHECK(check_against_oracle(p, expected, output).ok());
    put(output, 3, expected.rows[0].O[3] + 1e-4);
    CHECK(check_against_oracle(p, expected, output).O.wrong == 1);
  }
}

TEST_CASE("Where scores leave float32, NaN and infinity pass and other numbers don't") {
  Problem p = one_row(50, 8);
  p.scale = 3e38f;
  const Inputs inputs = make_inputs(p, "normal", 5);
  const Expected expected = expect(p, inputs.view());
  Output output(p);
  for (Index x = 0; x < p.d; ++x) put(output, x, NAN);
  output.LSE()[0] = INFINITY;
  CHECK(check_against_oracle(p, expected, output).failure() == "");
  CHECK(check_against_oracle(p, expected, output).O.excused == p.d);
  put(output, 0, 100);
  CHECK(check_against_oracle(p, expected, output).O.wrong == 1);
}

TEST_CASE("NaN in a V that is hidden from this query but not from all: whole tiles may spread it") {
  Problem p = one_row(6, 4);
  p.Nq = 6;
  p.causal = true;
  const Inputs inputs = make_inputs(p, "normal", 5);
  static_cast<float*>(inputs.V.view().data)[3 * 4 + 1] = NAN;  // V[3][1], of queries 3, 4, 5
  const Expected expected = expect(p, inputs.view());
  Output output(p);
  for (Index i = 0; i < 6; ++i) {
    const OracleRow& row = expected.rows[static_cast<std::size_t>(i)];
    for (Index x = 0; x < 4; ++x) put(output, i * 4 + x, row.O[static_cast<std::size_t>(x)]);
    output.LSE()[i] = static_cast<float>(row.LSE);
  }
  const auto wrong = [&](bool whole_tiles) {
    return check_against_oracle(p, expected, output, {false, whole_tiles}).O.wrong;
  };
  CHECK(wrong(false) == 0);
  put(output, 2 * 4 + 1, NAN);  // query 2 doesn't see key 3
  CHECK(wrong(false) == 1);
  CHECK(wrong(true) == 0);
  put(output, 2 * 4 + 2, NAN);  // V[3][2] is a number
  CHECK(wrong(true) == 1);
  put(output, 3 * 4 + 1, 0.5);  // query 3 sees key 3
  CHECK(wrong(true) == 2);
}

TEST_CASE("Against the stage before, the sum of both tolerances is allowed and no more") {
  const Fixture f = fixture();
  const Output previous = right_output(f);
  const double tolerance = tolerance_O(f.expected.rows[0], 0, f.problem.d, DType::float32),
               O = f.expected.rows[0].O[0];
  const auto passes = [&](double deviation) {
    const Output output = right_output(f);
    put(output, 0, O + deviation);
    return check_against_previous(f.problem, f.expected, output, previous).ok();
  };
  CHECK(passes(1.8 * tolerance));
  CHECK_FALSE(passes(2.2 * tolerance));
  CHECK_FALSE(passes(NAN));
}

TEST_CASE("The same seed gives the same numbers, another seed others") {
  const Problem p = fixture().problem;
  const auto bytes = [&](std::uint64_t seed) {
    const Inputs inputs = make_inputs(p, "normal", seed);
    const auto* first = static_cast<const float*>(inputs.Q.view().data);
    return std::vector<float>(first, first + inputs.Q.view().elements());
  };
  CHECK(bytes(1) == bytes(1));
  CHECK(bytes(1) != bytes(2));
  CHECK_THROWS_AS(make_inputs(p, "nonsense", 1), Refused);
}
