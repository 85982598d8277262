// Stage 4 in the emulator, against the oracle: every type, mask and odd shape, without a fault.
#include "common/harness/inputs.hpp"
#include "common/simt/launch.hpp"
#include "stage4_simple_cuda/attention.hpp"
#include "tests/catch.hpp"

namespace fa::test {
namespace {

simt::Report check_stage4(const Problem& problem, const std::string& pattern = "normal") {
  const Inputs inputs = make_inputs(problem, pattern, 7);
  Output output(problem);
  output.poison();
  simt::Session session;
  dispatch(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    stage4::simt::attention<T>(inputs.Q.view().as<const T>(),
                               inputs.K.view().as<const T>(),
                               inputs.V.view().as<const T>(),
                               output.O().as<T>(),
                               output.LSE(),
                               problem.scale,
                               problem.mask());
  });
  const OracleCheck check = check_against_oracle(problem, expect(problem, inputs.view()), output);
  INFO(describe(problem) << " " << pattern);
  INFO(session.report().text());
  INFO(check.failure());
  CHECK(session.report().ok());
  CHECK(check.ok());
  return session.report();
}

Problem problem_of(Index B, Index Hq, Index Hkv, Index Nq, Index Nkv, Index d) {
  Problem p;
  p.B = B, p.Hq = Hq, p.Hkv = Hkv, p.Nq = Nq, p.Nkv = Nkv, p.d = d;
  p.scale = default_scale(d);
  return p;
}

TEST_CASE("stage 4: types, head maps and head dimensions") {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16})
    for (const Index d : {1, 16, 63, 64, 65, 80, 128, 129, 256}) {
      Problem p = problem_of(2, 4, 2, 37, 41, d);
      p.dtype = dtype;
      p.causal = d % 2 == 0;
      check_stage4(p);
    }
  CHECK_THROWS_AS(check_stage4(problem_of(1, 1, 1, 1, 1, 257)), Refused);
}

TEST_CASE("stage 4: lengths around the tiles") {
  for (const Index Nq : {0, 1, 15, 63, 64, 65, 129})
    for (const Index Nkv : {0, 1, 31, 32, 33, 64, 97}) {
      Problem p = problem_of(1, 2, 1, Nq, Nkv, 32);
      check_stage4(p);
      p.causal = true;
      check_stage4(p);
    }
}

TEST_CASE("stage 4: windows") {
  for (const bool causal : {false, true})
    for (const auto& [left, right] : {std::pair<Index, Index>{0, 0}, {5, 3}, {-1, 7}, {40, -1}}) {
      Problem p = problem_of(1, 1, 1, 150, 131, 64);
      p.causal = causal;
      p.window_left = left;
      p.window_right = right;
      check_stage4(p);
    }
}

TEST_CASE("stage 4: probes") {
  for (const std::string pattern : {"stairs-up", "stairs-down", "all-low"}) {
    Problem p = problem_of(1, 2, 2, 150, 150, 64);
    check_stage4(p, pattern);
    p.causal = true;
    check_stage4(p, pattern);
  }
}

TEST_CASE("stage 4 skips tiles that no query sees") {
  Problem p = problem_of(1, 1, 1, 256, 256, 64);
  const std::uint64_t all = check_stage4(p).total.global_load_bytes;
  p.causal = true;
  const std::uint64_t causal = check_stage4(p).total.global_load_bytes;
  // Query tiles of 64 see 64, 128, 192, 256 keys: 640 of 1,024 rows of K and V.
  const std::uint64_t row = 64 * 4, q_rows = 256;
  CHECK(all == row * (q_rows + 2 * 1024));
  CHECK(causal == row * (q_rows + 2 * 640));
}

}  // namespace
}  // namespace fa::test
