#include "tests/support.hpp"

#include <cstring>

namespace fa {

Problem one_head(Index Nq, Index Nkv, Index d, DType dtype) {
  Problem p;
  p.Nq = Nq;
  p.Nkv = Nkv;
  p.d = d;
  p.dtype = dtype;
  p.scale = default_scale(d);
  return p;
}

Problem with_mask(Problem p, bool causal, Index left, Index right) {
  p.causal = causal;
  p.window_left = left;
  p.window_right = right;
  return p;
}

bool sees(const Problem& p, Index i, Index j) {
  const Index before_diagonal = i + p.Nkv - p.Nq - j;
  return !(p.causal && before_diagonal < 0) &&
         !(p.window_left >= 0 && before_diagonal > p.window_left) &&
         !(p.window_right >= 0 && -before_diagonal > p.window_right);
}

RunFacts run_job(const Variant& variant, Job job) {
  job.device = variant.device;
  const std::shared_ptr<void> around = variant.around ? variant.around() : nullptr;
  const RunFacts facts = variant.stage.run(job);
  const bool on_gpu = facts.seconds >= 0, in_emulator = !facts.counts.empty();
  if (job.problem.B * job.problem.Hq * job.problem.Nq > 0 &&
      (on_gpu != (variant.device == Device::gpu) ||
       in_emulator != (variant.device == Device::simt)))
    throw std::runtime_error(variant.name + " ran elsewhere: " + facts.device);
  return facts;
}

Output run(const Variant& variant,
           const Problem& p,
           const Tensors& inputs,
           int threads,
           const std::vector<Index>& queries) {
  Output output(p);
  const RunFacts facts = run_job(
      variant,
      {p, inputs.Q, inputs.K, inputs.V, output.O(), output.LSE(), queries, variant.tile, threads});
  if (!facts.faults.empty())
    throw std::runtime_error(variant.name + ", " + describe(p) + ":\n" + facts.faults);
  return output;
}

std::string check(const Variant& variant,
                  const Problem& p,
                  const Tensors& inputs,
                  const Expected& expected) {
  Output output(p);
  const RunFacts facts = run_job(
      variant, {p, inputs.Q, inputs.K, inputs.V, output.O(), output.LSE(), {}, variant.tile, 1});
  const OracleCheck outcome = check_against_oracle(p, expected, output, variant.stage.leeway);
  if (outcome.ok() && facts.faults.empty()) return "";
  return variant.name + ", " + describe(p) + ": " + outcome.failure() + "\n" + facts.faults;
}

std::string check_variants(const std::vector<Variant>& variants,
                           const Problem& p,
                           const std::string& pattern,
                           std::uint64_t seed) {
  std::string failures;
  for (const auto& [taken, some] : by_d(p, variants)) {
    const Inputs inputs = make_inputs(taken, pattern, seed);
    const Expected expected = expect(taken, inputs.view());
    for (const Variant& variant : some) failures += check(variant, taken, inputs.view(), expected);
  }
  const Inputs inputs = make_inputs(p, pattern, seed);
  for (const Variant& variant : variants) {
    const bool known_type = takes(variant, p.dtype);
    if (takes_d(variant, p.d) && known_type) continue;
    std::string refusal = "nothing was refused";
    try {
      run(variant, p, inputs.view());
    } catch (const Refused& refused) {
      refusal = refused.what();
    }
    const std::string name = known_type ? "d = " + std::to_string(p.d) : name_of(p.dtype);
    if (refusal.find(name) == std::string::npos)
      failures +=
          variant.name + ", " + describe(p) + ": should refuse " + name + ": " + refusal + "\n";
  }
  return failures;
}

bool same_row(
    const Output& a, Index b_a, Index i_a, const Output& b, Index b_b, Index i_b, Index h) {
  const AnyTensor &A = a.O(), &B = b.O();
  const auto bytes = static_cast<std::size_t>(A.d * bytes_of(A.dtype));
  const auto row = [](const AnyTensor& X, Index batch, Index head, Index i) {
    return static_cast<const unsigned char*>(X.data) +
           ((batch * X.H + head) * X.N + i) * X.d * bytes_of(X.dtype);
  };
  return std::memcmp(row(A, b_a, h, i_a), row(B, b_b, h, i_b), bytes) == 0 &&
         std::memcmp(a.LSE() + (b_a * A.H + h) * A.N + i_a,
                     b.LSE() + (b_b * B.H + h) * B.N + i_b,
                     sizeof(float)) == 0;
}

bool same_bits(const Output& a, const Output& b) {
  for (Index batch = 0; batch < a.O().B; ++batch)
    for (Index h = 0; h < a.O().H; ++h)
      for (Index i = 0; i < a.O().N; ++i)
        if (!same_row(a, batch, i, b, batch, i, h)) return false;
  return true;
}

void set_last_column(const Tensors& inputs,
                     const std::function<float(Index)>& of_query,
                     const std::function<float(Index)>& of_key) {
  const auto fill = [](const AnyTensor& X, const std::function<float(Index)>& of_row) {
    for (Index b = 0; b < X.B; ++b)
      for (Index h = 0; h < X.H; ++h)
        for (Index i = 0; i < X.N; ++i) set(X, b, h, i, X.d - 1, of_row(i));
  };
  fill(inputs.Q, of_query);
  fill(inputs.K, of_key);
}

void let_scores_rise(const Problem& problem,
                     const Tensors& inputs,
                     const std::function<float(Index)>& of_query) {
  set_last_column(
      inputs,
      [&](Index i) { return of_query(i) / (problem.scale * 1.442695f); },
      [&](Index j) { return float(j) / float(problem.Nkv); });
}

void set(const AnyTensor& X, Index b, Index h, Index i, Index x, float value) {
  dispatch(X.dtype, [&](auto zero) {
    using T = decltype(zero);
    X.as<T>().head(b, h)[i][x] = T(value);
  });
}

Storage copy_of(const AnyTensor& X) {
  Storage copy(X.dtype, X.B, X.H, X.N, X.d);
  for (Index b = 0; b < X.B; ++b)
    for (Index h = 0; h < X.H; ++h)
      for (Index i = 0; i < X.N; ++i)
        for (Index x = 0; x < X.d; ++x) set(copy.view(), b, h, i, x, X.at(b, h, i, x));
  return copy;
}

}  // namespace fa
