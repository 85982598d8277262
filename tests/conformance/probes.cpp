#include "tests/probes.hpp"

#include "tests/catch.hpp"

using namespace fa;

TEST_CASE("The standard probes pass in every stage, tile size and type") {
  for (const Variant& variant : every_variant())
    for (const DType dtype : variant.stage.dtypes) {
      if (variant.around && dtype != type_of(variant)) continue;  // the same copies
      for (const Failure& failure : run_probes(variant, dtype)) {
        INFO(variant.name);
        FAIL_CHECK(failure.probe << ": " << failure.what);
      }
    }
}

TEST_CASE("With equal scores each output is the mean of the visible values") {
  // In closed form: keys [first, last] have V = j + 1, whose mean is (first + last) / 2 + 1.
  for (const DType dtype : kAllTypes)
    for (const bool causal : {false, true})
      for (const Index left : {-1, 0, 5, 100}) {
        const Problem some = with_mask(one_head(90, 120, 16, dtype), causal, left, -1);
        for (const auto& [p, variants] : by_d(some, all_variants())) {
          const Inputs inputs = make_inputs(p, "mean", 1);
          for (const Variant& variant : variants) {
            INFO(variant.name << ", " << describe(p));
            const Output output = run(variant, p, inputs.view());
            double worst = 0;
            for (Index i = 0; i < p.Nq; ++i) {
              const double first =
                  left < 0 ? 0 : std::max<double>(0, static_cast<double>(i + 30 - left));
              const double last = causal ? static_cast<double>(i + 30) : 119;
              const double mean = (first + last) / 2 + 1;
              worst = worse(worst,
                            std::abs(static_cast<double>(output.O().at(0, 0, i, 7)) - mean) / mean);
            }
            CHECK(worst <= 130 * 0x1p-24 + (dtype == DType::float32 ? 0 : roundoff_of(dtype)));
          }
        }
      }
}
