#include "common/harness/compare.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace fa {

namespace {

/// Calls f(b, h, query, row) for every row of `expected`, in row-major order.
template <class F>
void for_each_row(const Problem& p, const Expected& expected, F f) {
  std::size_t at = 0;
  for (Index b = 0; b < p.B; ++b)
    for (Index h = 0; h < p.Hq; ++h)
      for (const Index i : expected.queries) f(b, h, i, expected.rows[at++]);
}

/// NaN has a sign, which says nothing.
double unsigned_nan(double value) { return std::isnan(value) ? NAN : value; }

double lse_of(const Output& output, const Problem& p, Index b, Index h, Index i) {
  return static_cast<double>(output.LSE()[(b * p.Hq + h) * p.Nq + i]);
}

}  // namespace

void Comparison::add(const Element& e, bool may_be_nonfinite) {
  ++compared;
  if (may_be_nonfinite && !(std::isfinite(e.got) && std::isfinite(e.expected))) {
    ++excused;
    return;
  }
  if (!std::isfinite(e.expected)) {
    // −inf is the right LSE of an empty row, and only −inf is. Elsewhere the definition gives
    // NaN or infinity itself: any number would be wrong, which NaN or infinity is left open.
    const bool empty_row = e.x < 0 && e.expected == -INFINITY;
    if (empty_row ? e.got == e.expected : !std::isfinite(e.got)) return;
  } else if (std::isfinite(e.got)) {
    const double error = std::abs(e.got - e.expected);
    max_error = std::max(max_error, error);
    const double ratio = error / e.tolerance;
    if (ratio >= worst_ratio) {
      worst_ratio = ratio;
      max_tolerance = e.tolerance;
      worst = e;
    }
    if (error <= e.tolerance) return;
  }
  if (wrong++ == 0) first_wrong = e;
  if (!std::isfinite(e.got)) {
    if (wrong_nonfinite++ == 0) worst = e;
    worst_ratio = INFINITY;
  }
}

std::string name_of(const Element& e) {
  return e.x < 0 ? fmt::format("LSE[b={} h={} i={}]", e.b, e.h, e.i)
                 : fmt::format("O[b={} h={} i={} x={}]", e.b, e.h, e.i, e.x);
}

std::string OracleCheck::failure() const {
  const auto line = [](const Comparison& c) {
    return fmt::format(
        "{} of {} elements wrong ({} NaN or infinite); first {}: got {:g}, expected {:g} +- "
        "{:.2g}; "
        "worst {}: got {:g}, expected {:g}",
        c.wrong,
        c.compared,
        c.wrong_nonfinite,
        name_of(c.first_wrong),
        unsigned_nan(c.first_wrong.got),
        c.first_wrong.expected,
        c.first_wrong.tolerance,
        name_of(c.worst),
        unsigned_nan(c.worst.got),
        c.worst.expected);
  };
  if (!guards_intact) return "the guard rows around the output were overwritten";
  if (unwritten > 0) return fmt::format("{} elements of the output were never written", unwritten);
  if (!O.ok()) return line(O);
  if (!LSE.ok()) return line(LSE);
  if (!rule.ok())
    return fmt::format(
        "largest error {:.3g} is more than twice that of the definition in 16 bits (allowed "
        "{:.3g})",
        rule.max_error,
        rule.allowed);
  return "";
}

Expected expect(const Problem& p, const Tensors& inputs, std::vector<Index> queries) {
  Expected expected;
  expected.queries = std::move(queries);
  if (expected.queries.empty()) {
    expected.queries.resize(static_cast<std::size_t>(p.Nq));
    std::iota(expected.queries.begin(), expected.queries.end(), Index{0});
  }
  for (Index b = 0; b < p.B; ++b)
    for (Index h = 0; h < p.Hq; ++h) {
      std::vector<OracleRow> rows = oracle(p, inputs.Q, inputs.K, inputs.V, b, h, expected.queries);
      std::move(rows.begin(), rows.end(), std::back_inserter(expected.rows));
    }
  share_losses(expected.rows);
  return expected;
}

OracleCheck check_against_oracle(const Problem& p,
                                 const Expected& expected,
                                 const Output& output,
                                 Leeway leeway) {
  OracleCheck check;
  check.guards_intact = output.guards_intact();
  check.unwritten = output.unwritten();
  double reference_error = 0;
  for_each_row(p, expected, [&](Index b, Index h, Index i, const OracleRow& row) {
    for (Index x = 0; x < p.d; ++x) {
      const double O = row.O[static_cast<std::size_t>(x)];
      check.O.add({b,
                   h,
                   i,
                   x,
                   static_cast<double>(output.O().at(b, h, i, x)),
                   O,
                   tolerance_O(row, x, p.d, p.dtype, leeway)},
                  std::isfinite(O) && may_be_nonfinite(row, x, leeway));
      const double reference = std::abs(row.O_rounded[static_cast<std::size_t>(x)] - O);
      if (std::isfinite(reference)) reference_error = std::max(reference_error, reference);
    }
    check.LSE.add({b,
                   h,
                   i,
                   -1,
                   lse_of(output, p, b, h, i),
                   row.LSE,
                   tolerance_LSE(row, p.d, p.dtype, leeway)},
                  std::isfinite(row.LSE) && scores_beyond_range(row));
  });
  check.rule.applies = p.dtype != DType::float32 && check.O.compared >= 1024;
  check.rule.max_error = check.O.max_error;
  check.rule.allowed = 2 * reference_error + 1e-5;
  return check;
}

Comparison check_against_previous(const Problem& p,
                                  const Expected& expected,
                                  const Output& output,
                                  const Output& previous,
                                  Leeway leeway,
                                  Leeway previous_leeway) {
  Comparison difference;
  for_each_row(p, expected, [&](Index b, Index h, Index i, const OracleRow& row) {
    for (Index x = 0; x < p.d; ++x)
      difference.add({b,
                      h,
                      i,
                      x,
                      static_cast<double>(output.O().at(b, h, i, x)),
                      static_cast<double>(previous.O().at(b, h, i, x)),
                      tolerance_O(row, x, p.d, p.dtype, leeway) +
                          tolerance_O(row, x, p.d, p.dtype, previous_leeway)},
                     may_be_nonfinite(row, x, leeway) || may_be_nonfinite(row, x, previous_leeway));
    difference.add({b,
                    h,
                    i,
                    -1,
                    lse_of(output, p, b, h, i),
                    lse_of(previous, p, b, h, i),
                    tolerance_LSE(row, p.d, p.dtype, leeway) +
                        tolerance_LSE(row, p.d, p.dtype, previous_leeway)},
                   scores_beyond_range(row));
  });
  return difference;
}

}  // namespace fa
