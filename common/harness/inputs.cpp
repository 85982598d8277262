#include "common/harness/inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace fa {

namespace {

/// Keys that share a step of the stairs: the tile size of the GPU stages.
constexpr Index kStep = 64;
/// What a score rises by from step to step. exp(−120) is 0 in float32: a sum that isn't rescaled,
/// or a maximum that isn't the running one, shows at once.
constexpr float kRise = 120;
/// A weight of exp(−14) = 8e-7 that a sloppy exp would call 0.
constexpr float kPeak = 14;
/// Component 0 of every query in the patterns that set scores; large, so that K stays small enough
/// for float16 on long stairs.
constexpr float kQueryComponent = 64;
constexpr float kLargestFloat16 = 65504;

/// Random numbers that are the same everywhere: the standard fixes the engine's bits, but leaves
/// its distributions open.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform() { return static_cast<float>(engine_() >> 40) * 0x1p-24f; }

  /// Standard normal, by Box and Muller.
  float normal() {
    const double radius = std::sqrt(-2 * std::log(1.0 - static_cast<double>(uniform())));
    return static_cast<float>(radius *
                              std::cos(6.283185307179586 * static_cast<double>(uniform())));
  }

 private:
  std::mt19937_64 engine_;
};

/// Sets every element to value(row, component).
template <class Value>
void fill(const AnyTensor& X, Value value) {
  dispatch(X.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* element = static_cast<T*>(X.data);
    for (Index row = 0; row < X.B * X.H * X.N; ++row)
      for (Index x = 0; x < X.d; ++x) *element++ = T(value(X.N == 0 ? 0 : row % X.N, x));
  });
}

/// The component 0 that gives a key the score `s`, in range for the problem's type.
float key_component(const Problem& p, float s) {
  const float value = p.scale == 0 ? 0 : s / (p.scale * kQueryComponent);
  return p.dtype == DType::float16 ? std::clamp(value, -kLargestFloat16, kLargestFloat16) : value;
}

}  // namespace

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {
      {"normal", "every element standard normal"},
      {"uniform", "every element uniform in [-1, 1)"},
      {"stairs-up", "scores rise by 120 every 64 keys: the maximum moves in every tile"},
      {"stairs-down", "scores fall by 120 every 64 keys: the first tile decides"},
      {"all-low", "scores near -1000: exp without the row's own maximum is 0"},
      {"long-tail", "one score 14 above the others, whose weights of e^-14 count together"},
      {"mean", "Q = 0 and V[j] = j + 1: each output is the mean of j + 1 over the visible keys"},
      {"constant", "every element 1"},
  };
  return all;
}

Inputs make_inputs(const Problem& p, const std::string& pattern, std::uint64_t seed) {
  Inputs inputs{p,
                Storage(p.dtype, p.B, p.Hq, p.Nq, p.d),
                Storage(p.dtype, p.B, p.Hkv, p.Nkv, p.d),
                Storage(p.dtype, p.B, p.Hkv, p.Nkv, p.d)};
  const AnyTensor &Q = inputs.Q.view(), &K = inputs.K.view(), &V = inputs.V.view();
  Random random(seed);
  const auto normal = [&](Index, Index) { return random.normal(); };
  const auto uniform = [&](Index, Index) { return 2 * random.uniform() - 1; };
  // Scores score(j) plus the noise of the other components.
  const auto with_scores = [&](auto score) {
    fill(Q, [&](Index, Index x) { return x == 0 ? kQueryComponent : random.normal(); });
    fill(K,
         [&](Index j, Index x) { return x == 0 ? key_component(p, score(j)) : random.normal(); });
    fill(V, normal);
  };
  const Index last_step = p.Nkv == 0 ? 0 : (p.Nkv - 1) / kStep;

  if (pattern == "normal") {
    for (const AnyTensor& X : {Q, K, V}) fill(X, normal);
  } else if (pattern == "uniform") {
    for (const AnyTensor& X : {Q, K, V}) fill(X, uniform);
  } else if (pattern == "stairs-up") {
    with_scores([&](Index j) { return kRise * static_cast<float>(j / kStep); });
  } else if (pattern == "stairs-down") {
    with_scores([&](Index j) { return kRise * static_cast<float>(last_step - j / kStep); });
  } else if (pattern == "all-low") {
    with_scores([&](Index) { return -1000.0f; });
  } else if (pattern == "long-tail") {
    // The first key's V is 0: what there is of O comes from the others.
    with_scores([&](Index j) { return j == 0 ? kPeak : 0; });
    fill(V, [&](Index j, Index) { return j == 0 ? 0 : 1 + random.normal(); });
  } else if (pattern == "mean") {
    fill(K, normal);
    fill(V, [](Index j, Index) { return static_cast<float>(j + 1); });
  } else if (pattern == "constant") {
    for (const AnyTensor& X : {Q, K, V}) fill(X, [](Index, Index) { return 1.0f; });
  } else {
    std::vector<std::string> names;
    for (const Pattern& known : patterns()) names.push_back(known.name);
    throw Refused(fmt::format("pattern '{}': must be one of {}", pattern, fmt::join(names, ", ")));
  }
  return inputs;
}

}  // namespace fa
