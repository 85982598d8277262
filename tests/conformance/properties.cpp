// What is true of attention whatever the numbers are.
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

Problem grouped_heads(DType dtype, bool causal) {
  Problem p = with_mask(one_head(70, 133, 40, dtype), causal);
  p.B = 2;
  p.Hq = 4;
  p.Hkv = 2;
  return p;
}

/// Are two outputs within the sum of their bounds? Nothing, or what differs first.
std::string apart(const Variant& variant,
                  const Problem& p,
                  const Expected& expected,
                  const Output& a,
                  const Output& b) {
  const Leeway leeway = variant.stage.leeway;
  const Comparison c = check_against_previous(p, expected, a, b, leeway, leeway);
  return c.ok() ? ""
                : name_of(c.first_wrong) + " differs: " + std::to_string(c.first_wrong.got) +
                      " and " + std::to_string(c.first_wrong.expected);
}

/// Element x of row n of all batch items' and heads' rows, one after the other.
double element(const AnyTensor& O, std::size_t n, Index x) {
  const Index row = static_cast<Index>(n), head = row / O.N;
  return static_cast<double>(O.at(head / O.H, head % O.H, row % O.N, x));
}

/// Calls test(variant, problem) for variants(n), for every type, and with and without a causal mask; n counts
/// what every stage takes.
template <class Test>
void for_variants(std::function<std::vector<Variant>(std::size_t n)> variants, Test test) {
  std::size_t n = 0;
  for (const DType dtype : kAllTypes)
    for (const bool causal : {false, true})
      for (const auto& [p, some] :
           by_d(grouped_heads(dtype, causal), variants(dtype == DType::float32 ? 0 : n++)))
        for (const Variant& variant : some) {
          INFO(variant.name << ", " << describe(p));
          test(variant, p);
        }
}

/// For the variants that take the whole suite.
template <class Test>
void for_all(Test test) {
  for_variants([](std::size_t) { return all_variants(); }, test);
}

/// For those, and for every other in one of its types, with or without a mask.
template <class Test>
void for_every(Test test) {
  for_variants([](std::size_t n) { return in_turn(n, 4); }, test);
}

/// Makes inputs twice by `make(inputs, changes)`, once with every 16th row changed, and once with none:
/// the others must keep their bits.
template <class Make>
void check_rows_beside(const Variant& variant, const Problem& p, std::uint64_t seed, Make make) {
  const Inputs inputs = make_inputs(p, "normal", seed), changed = make_inputs(p, "normal", seed);
  const auto changes = [](Index i) { return i % 16 == 3; };
  make(inputs.view(), [](Index) { return false; });
  make(changed.view(), changes);
  const Output before = run(variant, p, inputs.view()), after = run(variant, p, changed.view());
  Index different = 0, beside = 0;
  for (Index b = 0; b < p.B; ++b)
    for (Index h = 0; h < p.Hq; ++h)
      for (Index i = 0; i < p.Nq; ++i)
        (changes(i) ? different : beside) += !same_row(before, b, i, after, b, i, h);
  CHECK(beside == 0);
  CHECK(different > 0);
}

}  // namespace

TEST_CASE("A constant added to every score changes LSE by the constant and O not at all") {
  for_all([](const Variant& variant, const Problem& p) {
    Inputs inputs = make_inputs(p, "normal", 11);
    const auto add = [&](float component) {
      set_last_column(
          inputs.view(), [](Index) { return 1; }, [&](Index) { return component; });
    };
    add(0);
    const Output plain = run(variant, p, inputs.view());
    for (const float component : {24.0f, -400.0f}) {
      add(component);
      const Expected expected = expect(p, inputs.view());
      Output shifted = run(variant, p, inputs.view());
      for (Index row = 0; row < p.B * p.Hq * p.Nq; ++row) shifted.LSE()[row] -= p.scale * component;
      CHECK(apart(variant, p, expected, shifted, plain) == "");
    }
  });
}

TEST_CASE("The order of the keys doesn't matter where all are visible") {
  for_all([](const Variant& variant, const Problem& given) {
    const Problem p = with_mask(given, false);
    const Inputs inputs = make_inputs(p, "normal", 12), permuted = make_inputs(p, "normal", 12);
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hkv; ++h)
        for (Index j = 0; j < p.Nkv; ++j)
          for (Index x = 0; x < p.d; ++x) {
            const Index other = (j * 17 + 5) % p.Nkv;  // 17 and 133 share no divisor
            set(permuted.K.view(), b, h, j, x, inputs.K.view().at(b, h, other, x));
            set(permuted.V.view(), b, h, j, x, inputs.V.view().at(b, h, other, x));
          }
    CHECK(apart(variant,
                p,
                expect(p, inputs.view()),
                run(variant, p, permuted.view()),
                run(variant, p, inputs.view())) == "");
  });
}

TEST_CASE("O is linear in V") {
  for_all([](const Variant& variant, const Problem& p) {
    if (p.dtype != DType::float32) return;  // rounding of O to 16 bits isn't linear
    Inputs one = make_inputs(p, "normal", 13), two = make_inputs(p, "normal", 13),
           sum = make_inputs(p, "normal", 13);
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hkv; ++h)
        for (Index j = 0; j < p.Nkv; ++j)
          for (Index x = 0; x < p.d; ++x) {  // small integers: v + 2w is exact
            const auto v = static_cast<float>((j * 7 + x * 3) % 11 - 5),
                       w = static_cast<float>((j * 5 + x) % 13 - 6);
            set(one.V.view(), b, h, j, x, v);
            set(two.V.view(), b, h, j, x, w);
            set(sum.V.view(), b, h, j, x, v + 2 * w);
          }
    const Output o_one = run(variant, p, one.view()), o_two = run(variant, p, two.view()),
                 o_sum = run(variant, p, sum.view());
    const Expected e_one = expect(p, one.view()), e_two = expect(p, two.view()),
                   e_sum = expect(p, sum.view());
    double worst = 0;
    for (std::size_t row = 0; row < e_sum.rows.size(); ++row)
      for (Index x = 0; x < p.d; ++x) {
        const auto at = static_cast<std::size_t>(static_cast<Index>(row) * p.d + x);
        const auto value = [&](const Output& o) {
          return static_cast<double>(static_cast<const float*>(o.O().data)[at]);
        };
        const auto bound = [&](const Expected& e) {
          return tolerance_O(e.rows[row], x, p.d, p.dtype);
        };
        worst = worse(worst,
                      std::abs(value(o_one) + 2 * value(o_two) - value(o_sum)) /
                          (bound(e_one) + 2 * bound(e_two) + bound(e_sum)));
      }
    CHECK(worst <= 1);
  });
}

TEST_CASE("Future keys change nothing, bit for bit") {
  for_all([](const Variant& variant, const Problem& p) {
    if (!p.causal) return;
    const Inputs inputs = make_inputs(p, "normal", 14), changed = make_inputs(p, "normal", 14);
    const Index future = 100, first_to_see = future - (p.Nkv - p.Nq);
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hkv; ++h)
        for (Index j = future; j < p.Nkv; ++j)
          for (Index x = 0; x < p.d; ++x) {
            set(changed.K.view(), b, h, j, x, 50);
            set(changed.V.view(), b, h, j, x, -1000);
          }
    const Output before = run(variant, p, inputs.view()), after = run(variant, p, changed.view());
    Index changed_early = 0, changed_late = 0;
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hq; ++h)
        for (Index i = 0; i < p.Nq; ++i)
          (i < first_to_see ? changed_early : changed_late) +=
              !same_row(before, b, i, after, b, i, h);
    CHECK(changed_early == 0);
    CHECK(changed_late > 0);
  });
}

TEST_CASE("A row's bits don't depend on the queries beside it") {
  for_every([](const Variant& variant, const Problem& p) {
    check_rows_beside(variant, p, 19, [](const Tensors& inputs, auto changes) {
      set_last_column(  // scores of thousands, and of millions beside them
          inputs,
          [&](Index i) { return changes(i) ? 4000 : 1; },
          [](Index) { return 20000; });
    });
  });
}

// Scores rise from key to key: a little in most rows, and in some by so much that their m must move.
TEST_CASE("A row's bits don't depend on where its neighbours' maxima are") {
  for_every([](const Variant& variant, const Problem& p) {
    check_rows_beside(variant, p, 20, [&](const Tensors& inputs, auto changes) {
      let_scores_rise(p, inputs, [&](Index i) { return changes(i) ? 60 : 6; });
    });
  });
}

TEST_CASE("A batch item alone gives the same bits as within its batch") {
  for_every([](const Variant& variant, const Problem& p) {
    const Inputs inputs = make_inputs(p, "normal", 15);
    const Output whole = run(variant, p, inputs.view());
    Problem alone = p;
    alone.B = 1;
    Tensors item = inputs.view();
    for (AnyTensor* X : {&item.Q, &item.K, &item.V}) {
      X->data = static_cast<unsigned char*>(X->data) + X->batch_stride * bytes_of(p.dtype);
      X->B = 1;
    }
    const Output single = run(variant, alone, item);
    Index different = 0;
    for (Index h = 0; h < p.Hq; ++h)
      for (Index i = 0; i < p.Nq; ++i) different += !same_row(whole, 1, i, single, 0, i, h);
    CHECK(different == 0);
  });
}

TEST_CASE("Two halves of the keys, merged by their LSE, equal the whole") {
  struct Half {
    Output output;
    Expected expected;
  };
  for_all([](const Variant& variant, const Problem& p) {
    if (p.causal) return;  // the first half's last query would see its last key
    for (const Index split : {1, 64, 100}) {
      const Inputs inputs = make_inputs(p, "normal", 16);
      const Expected whole = expect(p, inputs.view());
      const auto half = [&](Index first, Index count) {
        Problem some = p;
        some.Nkv = count;
        Tensors view = inputs.view();
        for (AnyTensor* X : {&view.K, &view.V}) {
          X->data =
              static_cast<unsigned char*>(X->data) + first * X->row_stride * bytes_of(p.dtype);
          X->N = count;
        }
        return Half{run(variant, some, view), expect(some, view)};
      };
      const Half one = half(0, split), two = half(split, p.Nkv - split);
      double worst = 0;
      for (std::size_t n = 0; n < whole.rows.size(); ++n) {
        const OracleRow& row = whole.rows[n];
        const auto LSE = [&](const Half& of) { return static_cast<double>(of.output.LSE()[n]); };
        const double larger = std::max(LSE(one), LSE(two));
        const double merged_LSE =
            larger + std::log(std::exp(LSE(one) - larger) + std::exp(LSE(two) - larger));
        double LSE_allowed = 0;  // of the half that may err more
        for (const Half* of : {&one, &two})
          LSE_allowed = std::max(
              LSE_allowed, tolerance_LSE(of->expected.rows[n], p.d, p.dtype, variant.stage.leeway));
        worst = worse(worst, std::abs(merged_LSE - row.LSE) / LSE_allowed);
        for (Index x = 0; x < p.d; ++x) {
          double merged = 0, allowed = 2 * LSE_allowed * row.max_v;  // by errors of the weights
          for (const Half* of : {&one, &two}) {
            const double weight = std::exp(LSE(*of) - merged_LSE);
            merged += weight * element(of->output.O(), n, x);
            allowed +=
                weight * tolerance_O(of->expected.rows[n], x, p.d, p.dtype, variant.stage.leeway);
          }
          worst = worse(worst, std::abs(merged - row.O[static_cast<std::size_t>(x)]) / allowed);
        }
      }
      INFO("the first " << split << " of 133 keys");
      CHECK(worst <= 1);
    }
  });
}

TEST_CASE("Reruns and any number of threads give the same bits") {
  for_every([](const Variant& variant, const Problem& p) {
    const Inputs inputs = make_inputs(p, "normal", 17);
    const Output first = run(variant, p, inputs.view(), 1);
    const bool in_part = !variant.whole_suite;  // the emulator is slow
    for (const int threads : in_part ? std::vector<int>{1, 3} : std::vector<int>{1, 2, 3, 8, 0}) {
      INFO(threads << " threads");
      CHECK(same_bits(run(variant, p, inputs.view(), threads), first));
    }
  });
}

TEST_CASE("Chosen queries come out as in the whole, and no other row is written") {
  for_all([](const Variant& variant, const Problem& p) {
    const std::vector<Index> queries = {0, 1, 17, 63, 64, p.Nq - 1};
    const Inputs inputs = make_inputs(p, "normal", 18);
    const Output whole = run(variant, p, inputs.view());
    const Output some = run(variant, p, inputs.view(), 2, queries);
    if (variant.stage.on_device) {  // a kernel takes whole tiles of queries, so all of them
      CHECK(same_bits(some, whole));
      return;
    }
    CHECK(some.guards_intact());
    CHECK(some.unwritten() == (p.Nq - static_cast<Index>(queries.size())) * p.B * p.Hq * (p.d + 1));
    const OracleCheck outcome = check_against_oracle(p, expect(p, inputs.view(), queries), some);
    CHECK(outcome.O.wrong + outcome.LSE.wrong == 0);
    if (variant.stage.tiled) return;  // tiles of one query: Eigen sums in another order
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hq; ++h)
        for (const Index i : queries) CHECK(same_row(some, b, i, whole, b, i, h));
  });
}

TEST_CASE("With V the identity, O is P: weights from 0 to 1 that sum to 1") {
  for (const DType dtype : kAllTypes)
    for (const bool causal : {false, true})
      for (const auto& [p, variants] :
           by_d(with_mask(one_head(50, 96, 96, dtype), causal), all_variants())) {
        const Inputs inputs = make_inputs(p, "normal", 19);
        for (Index j = 0; j < 96; ++j)
          for (Index x = 0; x < p.d; ++x) set(inputs.V.view(), 0, 0, j, x, j == x ? 1 : 0);
        for (const Variant& variant : variants) {
          INFO(variant.name << ", " << describe(p));
          const Output P = run(variant, p, inputs.view());
          double worst_sum = 0;
          Index outside = 0, not_hidden = 0;
          for (Index i = 0; i < p.Nq; ++i) {
            double sum = 0;
            for (Index j = 0; j < p.Nkv; ++j) {
              const double weight = static_cast<double>(P.O().at(0, 0, i, j));
              sum += weight;
              outside += !(weight >= 0 && weight <= 1);
              not_hidden += !sees(p, i, j) && weight != 0;
            }
            worst_sum = worse(worst_sum, std::abs(sum - 1));
          }
          // In 16 bits O is rounded, and P too, after l was summed or before.
          CHECK(worst_sum < 100 * 0x1p-24 + (dtype == DType::float32 ? 0 : 2 * roundoff_of(dtype)));
          CHECK(outside == 0);
          CHECK(not_hidden == 0);
          CHECK(check(variant, p, inputs.view(), expect(p, inputs.view())) == "");
        }
      }
}
