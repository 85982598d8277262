// Extra memory: what is allocated, against what each stage says it needs.
#include <sys/resource.h>

#include "common/attention/scratch.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

/// Scratch memory at the worst moment of a run, and the stage's own prediction.
struct Memory {
  double measured = 0;
  double predicted = 0;
};

Memory memory_of(const Variant& variant,
                 const Problem& p,
                 int threads = 1,
                 const std::vector<Index>& queries = {}) {
  const Inputs inputs = make_inputs(p, "constant", 1);
  Output output(p);
  const Tensors t = inputs.view();
  const Job job{p, t.Q, t.K, t.V, output.O(), output.LSE(), queries, variant.tile, threads};
  ScratchMeter::reset();
  const RunFacts facts = run_job(variant, job);
  CHECK(facts.faults == "");
  return {static_cast<double>(ScratchMeter::peak_bytes()), variant.stage.cost(job).scratch_bytes};
}

}  // namespace

TEST_CASE("One thread takes exactly the extra memory that the stage's formula says") {
  for (const Variant& variant : all_variants())
    for (const DType dtype : variant.stage.dtypes)
      for (const bool causal : {false, true})
        for (const auto& [Nq, Nkv] :
             std::vector<std::pair<Index, Index>>{{1, 1}, {70, 133}, {150, 600}, {5, 0}}) {
          Problem p = with_mask(one_head(Nq, Nkv, d_for(variant, 24), dtype), causal);
          p.Hq = p.Hkv = 3;
          INFO(variant.name << ", " << describe(p));
          const Memory memory = memory_of(variant, p);
          CHECK(memory.measured == memory.predicted);
          const Memory few = memory_of(variant, p, 1, {0, Nq - 1});
          CHECK(few.measured == few.predicted);
        }
}

TEST_CASE("Several threads take no more than the formula says") {
  for (const Variant& variant : all_variants())
    for (const int threads : {2, 3, 8}) {
      Problem p = one_head(200, 300, d_for(variant, 24), type_of(variant));
      p.Hq = p.Hkv = 4;
      INFO(variant.name << ", " << threads << " threads");
      const Memory memory = memory_of(variant, p, threads);
      CHECK(memory.measured <= memory.predicted);
      CHECK((memory.measured > 0) == !variant.stage.on_device);
    }
}

TEST_CASE(
    "Twice the tokens take four times the extra memory in stage 1, and no more in the others") {
  for (const Variant& variant : all_variants()) {
    if (variant.tile.Br == 1) continue;                           // slow, and no other arrays
    const Index N = variant.device == Device::simt ? 256 : 1024;  // the emulator is slow
    const auto measured = [&](Index length) {
      return memory_of(variant, one_head(length, length, d_for(variant, 8), type_of(variant)))
          .measured;
    };
    const double small = measured(N), large = measured(2 * N);
    INFO(variant.name << ": " << small << " bytes at " << N << ", " << large << " at " << 2 * N);
    if (variant.stage.number == 1)
      CHECK(std::abs(large / small - 4) < 0.01);
    else
      CHECK(large == small);
  }
}

TEST_CASE("65,536 tokens run in the stages after the first without a large allocation") {
  // S alone would be 17 GB. Four rows see all keys; then a window keeps the work of all rows small
  // in the stages that skip hidden tiles.
  for (const Variant& variant : all_variants()) {
    if (variant.stage.number == 1 || variant.tile.Br == 1) continue;
    INFO(variant.name);
    CHECK(memory_of(variant, one_head(4, 65536, d_for(variant, 16), type_of(variant))).measured <
          4e6);
    if (!variant.stage.tiled) continue;

    const Problem p = with_mask(one_head(65536, 65536, 4), true, 40, -1);
    const Inputs inputs = make_inputs(p, "normal", 2);
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    ScratchMeter::reset();
    const Output output = run(variant, p, inputs.view());
    getrusage(RUSAGE_SELF, &after);
    CHECK(ScratchMeter::peak_bytes() < 4'000'000);
#if !defined(__SANITIZE_ADDRESS__)  // whose shadow memory and quarantine would count too
    CHECK(after.ru_maxrss - before.ru_maxrss < 100 * 1024);  // KiB; O is 1 MB
#endif
    const std::vector<Index> sampled = {0, 1, 39, 40, 41, 32767, 32768, 65535};
    CHECK(check_against_oracle(p, expect(p, inputs.view(), sampled), output).failure() == "");
  }
}
