// What only a GPU can show of the CUDA stages: grids too large for the emulator, and kernels one
// after the other in one process.
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

TEST_CASE("d = 128, then 256, then 64 in one process: each kernel asks for its own shared memory") {
  for (const DType dtype : kAllTypes)
    for (const Index d : {128, 256, 64, 200, 128, 16})
      CHECK(check_all_variants(with_mask(one_head(150, 300, d, dtype), true), "normal", 1) == "");
}

TEST_CASE("A refused run leaves the GPU as it was") {
  CHECK(check_all_variants(one_head(40, 50, 257)) == "");
  CHECK(check_all_variants(one_head(40, 50, 64)) == "");
}

TEST_CASE("Grids beyond 65,535 tiles of queries are right in every part") {
  for (const Variant& variant : all_variants()) {
    const Index d = d_for(variant, variant.stage.step.empty() ? 1 : 8);  // 8: a step's own kernel
    const Index Br = variant.stage.tile_for(one_head(1, 1, d), {}).Br;
    const Problem p = with_mask(one_head(65537 * Br - 3, 50, d, type_of(variant)), true, 20, -1);
    const Inputs inputs = make_inputs(p, "normal", 31);
    const Output output = run(variant, p, inputs.view());
    INFO(variant.name << ", " << describe(p));
    std::vector<Index> queries;
    for (Index i = 0; i < p.Nq; i += i < p.Nq - 200 ? 997 : 1) queries.push_back(i);
    CHECK(check_against_oracle(p, expect(p, inputs.view(), queries), output, variant.stage.leeway)
              .failure() == "");
  }
}

TEST_CASE("Long sequences are right: 16,384 keys, 8,192 queries") {
  for (const DType dtype : kAllTypes)
    for (const bool causal : {false, true}) {
      Problem some = with_mask(one_head(8192, 16384, 80, dtype), causal);
      some.Hq = 4;
      some.Hkv = 2;
      for (const auto& [p, variants] : by_d(some, all_variants())) {
        const Inputs inputs = make_inputs(p, "normal", 34);
        std::vector<Index> queries;
        for (Index i = 0; i < p.Nq; i += 331) queries.push_back(i);
        const Expected expected = expect(p, inputs.view(), queries);
        for (const Variant& variant : variants) {
          INFO(variant.name << ", " << describe(p));
          const Output first = run(variant, p, inputs.view());
          CHECK(check_against_oracle(p, expected, first, variant.stage.leeway).failure() == "");
          CHECK(same_bits(run(variant, p, inputs.view()), first));
        }
      }
    }
}
