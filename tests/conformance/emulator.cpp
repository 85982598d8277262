// What only the emulator can show of the CUDA stages.
#include <cmath>

#include "common/simt/launch.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

/// V of item (batch · H + head) is item mod 97 + 1; scores are equal.
Inputs numbered_items(const Problem& p) {
  Inputs inputs = make_inputs(p, "constant", 1);
  for (Index b = 0; b < p.B; ++b)
    for (Index h = 0; h < p.Hkv; ++h)
      for (Index j = 0; j < p.Nkv; ++j)
        for (Index x = 0; x < p.d; ++x)
          set(inputs.V.view(), b, h, j, x, static_cast<float>((b * p.Hkv + h) % 97 + 1));
  return inputs;
}

}  // namespace

TEST_CASE("Grids beyond 65,535 in batch items or heads: chosen blocks write their own rows") {
  // One query an item, so one block an item. The whole grid would take minutes.
  const std::vector<std::int64_t> chosen = {0, 1, 65534, 65535, 65536, 131070, 131072};
  for (const DType dtype : {DType::float32, DType::float16})
    for (const bool in_heads : {false, true}) {
      Problem some = one_head(1, 1, 16, dtype);
      (in_heads ? some.Hq : some.B) = 131073;
      if (in_heads) some.Hkv = some.Hq;
      for (const auto& [p, variants] : by_d(some, all_variants())) {
        const Inputs inputs = numbered_items(p);
        for (const Variant& variant : variants) {
          INFO(variant.name << ", " << describe(p));
          simt::Options options;
          options.blocks = chosen;
          const simt::Session session(options);
          const Output output = run(variant, p, inputs.view());
          CHECK(output.guards_intact());
          // Nothing else is written.
          CHECK(output.unwritten() == (131073 - static_cast<Index>(chosen.size())) * (p.d + 1));
          for (const std::int64_t item : chosen) {
            INFO("item " << item);
            const Index b = in_heads ? 0 : item, h = in_heads ? item : 0;
            Index right = 0;
            for (Index x = 0; x < p.d; ++x)
              right += output.O().at(b, h, 0, x) == static_cast<float>(item % 97 + 1);
            CHECK(right == p.d);
            // Whatever base a step counts in.
            CHECK(output.LSE()[item] == p.scale * static_cast<float>(p.d));
          }
        }
      }
    }
}

TEST_CASE("Grids beyond 65,535 tiles of queries: the first and the last rows are right") {
  for (const Variant& variant : all_variants()) {
    const Index d = d_for(variant, variant.stage.step.empty() ? 1 : 8);  // 8: a step's own kernel
    const Index Br = variant.stage.tile_for(one_head(1, 1, d), {}).Br;
    const Problem p = with_mask(one_head(65537 * Br - 3, 50, d, type_of(variant)), true, 20, -1);
    const Index blocks = 65537;
    std::vector<Index> queries;
    for (const Index first : {Index{0}, Br, (blocks - 2) * Br, (blocks - 1) * Br})
      for (Index i = first; i < std::min(first + Br, p.Nq); ++i) queries.push_back(i);
    // Numbers for those rows of Q alone: for half a billion they would take half a minute.
    const Index count = static_cast<Index>(queries.size());
    const Inputs few = make_inputs(one_head(count, p.Nkv, d, p.dtype), "normal", 31);
    const Storage Q(p.dtype, 1, 1, p.Nq, d);
    for (Index n = 0; n < count; ++n)
      for (Index x = 0; x < d; ++x)
        set(Q.view(), 0, 0, queries[static_cast<std::size_t>(n)], x, few.Q.view().at(0, 0, n, x));
    const Tensors inputs = {Q.view(), few.K.view(), few.V.view()};
    simt::Options options;
    options.blocks = {0, 1, 65535, 65536};
    const simt::Session session(options);
    const Output output = run(variant, p, inputs);
    INFO(variant.name << ", " << describe(p));
    CHECK(output.guards_intact());
    // Three whole tiles and the last one, which lacks three queries.
    CHECK(output.unwritten() == (d + 1) * (p.Nq - (4 * Br - 3)));
    const OracleCheck outcome =
        check_against_oracle(p, expect(p, inputs, queries), output, variant.stage.leeway);
    CHECK(outcome.O.wrong + outcome.LSE.wrong == 0);
  }
}

TEST_CASE("Another order of the warps gives the same bits, and no fault") {
  for (const DType dtype : kAllTypes)
    for (const Index d : {63, 100, 200}) {
      Problem some = with_mask(one_head(70, 133, d, dtype), true);
      some.Hq = 2;
      for (const auto& [p, variants] : by_d(some, all_variants())) {
        const Inputs inputs = make_inputs(p, "normal", 32);
        for (const Variant& variant : variants) {
          INFO(variant.name << ", " << describe(p));
          const Output plain = run(variant, p, inputs.view());
          simt::Options options;
          options.copies = simt::Copies::early;
          const simt::Session session(options);
          CHECK(same_bits(run(variant, p, inputs.view()), plain));
        }
      }
    }
}

TEST_CASE("Counted traffic is what the stage's formula says") {
  for (const DType dtype : kAllTypes)
    for (const Index d : {1, 63, 128, 200})
      for (const bool causal : {false, true})
        for (const auto& [left, right] : {std::pair<Index, Index>{-1, -1}, {20, 7}}) {
          Problem some = with_mask(one_head(70, 133, d, dtype), causal, left, right);
          some.Hq = 2;
          for (const auto& [p, variants] : by_d(some, all_variants())) {
            const Inputs inputs = make_inputs(p, "normal", 33);
            const Tensors t = inputs.view();
            for (const Variant& variant : variants) {
              INFO(variant.name << ", " << describe(p));
              Output output(p);
              const Job job{p, t.Q, t.K, t.V, output.O(), output.LSE(), {}, {}, 1};
              const RunFacts facts = run_job(variant, job);
              CHECK(facts.faults == "");
              CHECK(facts.global_bytes == variant.stage.cost(job).traffic_bytes);
            }
          }
        }
}

TEST_CASE("A query count that no grid holds is refused by name") {
  // 2^31 blocks would be needed; Q and O are one row that every head and query shares.
  for (const Variant& variant : all_variants()) {
    const DType dtype = type_of(variant);
    Problem p = one_head(Index{1} << 38, 1, 1, dtype);
    const Inputs inputs = make_inputs(one_head(1, 1, 1, dtype), "constant", 1);
    Tensors view = inputs.view();
    Output output(one_head(1, 1, 1, dtype));
    view.Q.N = p.Nq;
    view.Q.row_stride = 0;
    AnyTensor O = output.O();
    O.N = p.Nq;
    O.row_stride = 0;
    INFO(variant.name);
    CHECK_THROWS_AS(
        run_job(variant, {p, view.Q, view.K, view.V, O, output.LSE(), {}, variant.tile, 1}),
        Refused);
  }
}
