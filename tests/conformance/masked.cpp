// Masks over shapes: aligned bottom-right whatever Nq and Nkv are, with rows that see nothing.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

struct Shape {
  Index Nq, Nkv;
};

std::vector<Problem> masked_problems(DType dtype) {
  std::vector<Problem> result;
  for (const Shape& shape :
       {Shape{33, 33}, {17, 65}, {65, 17}, {1, 64}, {64, 1}, {129, 130}, {200, 70}})
    for (const bool causal : {false, true})
      for (const auto& [left, right] : std::vector<std::pair<Index, Index>>{{-1, -1},
                                                                            {0, 0},
                                                                            {0, -1},
                                                                            {-1, 0},
                                                                            {3, 1},
                                                                            {1, 30},
                                                                            {40, -1},
                                                                            {-1, 40},
                                                                            {1000, 1000},
                                                                            {0, 25}})
        result.push_back(with_mask(one_head(shape.Nq, shape.Nkv, 24, dtype), causal, left, right));
  return result;
}

}  // namespace

TEST_CASE("Causal masks and windows are right for any Nq and Nkv", "[masked]") {
  for (const DType dtype : kAllTypes)
    for (const Problem& p : masked_problems(dtype)) CHECK(check_all_variants(p) == "");
}

TEST_CASE("Windows over many tiles are right", "[masked]") {
  for (const DType dtype : kAllTypes)
    for (const auto& [left, right] :
         std::vector<std::pair<Index, Index>>{{100, 0}, {0, 300}, {513, 20}, {70, 700}})
      CHECK(check_all_variants(with_mask(one_head(330, 1100, 16, dtype), false, left, right),
                               "stairs-up") == "");
}

TEST_CASE("A query that sees no key gets O = 0 and LSE = -inf", "[masked]") {
  for (const DType dtype : kAllTypes)
    for (const Problem& some : {with_mask(one_head(100, 30, 24, dtype), true),
                                with_mask(one_head(300, 40, 24, dtype), false, 5, 5),
                                with_mask(one_head(100, 70, 8, dtype), true, 0, -1)})
      for (const auto& [p, variants] : by_d(some, all_variants())) {
        const Inputs inputs = make_inputs(p, "normal", 1);
        for (const Variant& variant : variants) {
          INFO(variant.name << ", " << describe(p));
          const Output output = run(variant, p, inputs.view());
          Index empty_rows = 0, right_rows = 0;
          for (Index i = 0; i < p.Nq; ++i) {
            bool empty = true, zero = true;
            for (Index j = 0; j < p.Nkv; ++j) empty = empty && !sees(p, i, j);
            for (Index x = 0; x < p.d; ++x) zero = zero && output.O().at(0, 0, i, x) == 0;
            empty_rows += empty;
            right_rows += empty && zero && output.LSE()[i] == -INFINITY;
          }
          CHECK(empty_rows >= 30);
          CHECK(right_rows == empty_rows);
        }
      }
}

TEST_CASE("What a mask hides from every query is never read", "[masked]") {
  // Keys 0..29 and 81..99 are outside every window.
  for (const DType dtype : kAllTypes)
    // Query 0 stands at key 60.
    for (const auto& [p, variants] :
         by_d(with_mask(one_head(40, 100, 24, dtype), false, 30, -1), all_variants())) {
      const Problem narrow = with_mask(p, true, 30, -1);
      const Inputs inputs = make_inputs(p, "normal", 8);
      for (const Problem& problem : {p, narrow})
        for (const float hidden : {NAN, INFINITY}) {
          const Storage K = copy_of(inputs.K.view()), V = copy_of(inputs.V.view());
          for (Index j = 0; j < 30; ++j)
            for (Index x = 0; x < p.d; ++x) {
              set(K.view(), 0, 0, j, x, hidden);
              set(V.view(), 0, 0, j, x, hidden);
            }
          for (const Variant& variant : variants) {
            INFO(variant.name << ", " << describe(problem));
            CHECK(same_bits(run(variant, problem, {inputs.Q.view(), K.view(), V.view()}),
                            run(variant, problem, inputs.view())));
          }
        }
    }
}
