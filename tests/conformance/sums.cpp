// Data on which float32 sums lose most: every rounding errs the same way, or the maximum never rests.
// Right stages must stay within the tolerance there, as tight as it is elsewhere.
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

/// Two queries that give every key the same score, or one that rises by `rise` from key to key.
Inputs even(const Problem& p, float rise) {
  Inputs inputs = make_inputs(p, "constant", 1);
  for (Index i = 0; i < p.Nq; ++i)
    for (Index x = 0; x < p.d; ++x) set(inputs.Q.view(), 0, 0, i, x, x == 0 ? 1 : 0);
  for (Index j = 0; j < p.Nkv; ++j) {
    set(inputs.K.view(), 0, 0, j, 0, rise * static_cast<float>(j) / p.scale);
    // Sums of these stay in one binade for thousands of keys: 1/10 and others that aren't exact.
    for (Index x = 0; x < p.d; ++x)
      set(inputs.V.view(), 0, 0, j, x, 0.1f + 0.21f * static_cast<float>(x));
  }
  return inputs;
}

}  // namespace

TEST_CASE("Sums of thousands of equal terms stay within the tolerance") {
  for (const Variant& variant : all_variants())
    for (const DType dtype : variant.stage.dtypes)
      for (const Index Nkv : {1000, 4096, 20000})
        for (const float rise : {0.0f, 1e-4f, 1e-3f, -1e-3f}) {
          if (variant.tile.Br == 1 && Nkv > 1000) continue;  // slow, and no other sum
          if (suite().on == Suite::On::emulator && Nkv > 4096 && rise != 0) continue;  // slow
          const Problem p = one_head(2, Nkv, d_for(variant, 8), dtype);
          const Inputs inputs = even(p, rise);
          INFO("scores rise by " << rise << " a key");
          CHECK(check(variant, p, inputs.view(), expect(p, inputs.view())) == "");
        }
}

TEST_CASE("Scores that are sums of equal products stay within the tolerance") {
  // In float32 each of the d roundings of such a sum errs the same way within a power of two: at d = 128
  // the plain sum of 16.41² is off by 16 eps, three times what random roundings would give.
  for (const Variant& variant : all_variants())
    for (const DType dtype : variant.stage.dtypes)
      for (const Index d : {8, 64, 128, 256})
        for (const float value : {1.1f, 11.03f, 16.41f}) {
          const Problem p = one_head(3, 20, d, dtype);
          if (!takes_d(variant, d)) continue;
          const Inputs inputs = make_inputs(p, "constant", 1);
          for (const AnyTensor& X : {inputs.Q.view(), inputs.K.view(), inputs.V.view()})
            for (Index row = 0; row < X.N; ++row)
              for (Index x = 0; x < d; ++x) set(X, 0, 0, row, x, value);
          CHECK(check(variant, p, inputs.view(), expect(p, inputs.view())) == "");
        }
}
