#include "common/attention/problem.hpp"

#include <fmt/format.h>

#include <cmath>

namespace fa {

namespace {
// Beyond this a product of sizes could leave 64 bits; no machine holds such a tensor anyway.
constexpr Index kMaxElements = Index{1} << 48;

void require_size(const char* name, Index value, Index least) {
  if (value < least || value > kMaxElements)
    throw Refused(fmt::format("{} = {}: must be from {} to 2^48", name, value, least));
}

void require_window(const char* side, Index value) {
  if (value < -1 || value > kMaxElements)
    throw Refused(
        fmt::format("window {} = {}: must be -1 (unbounded) or from 0 to 2^48", side, value));
}

void require_tensor(const char* name, Index B, Index H, Index N, Index d) {
  const double elements = static_cast<double>(B) * static_cast<double>(H) * static_cast<double>(N) *
                          static_cast<double>(d);
  if (elements > static_cast<double>(kMaxElements))
    throw Refused(fmt::format("{} [{}, {}, {}, {}] has {:.3g} elements: at most 2^48 are allowed",
                              name,
                              B,
                              H,
                              N,
                              d,
                              elements));
}
}  // namespace

double Problem::visible_pairs() const {
  const Mask m = mask();
  double pairs = 0;
  for (Index i = 0; i < Nq; ++i) {
    const KeyRange keys = m.keys(i);
    pairs += static_cast<double>(keys.last - keys.first);
  }
  return pairs * static_cast<double>(B) * static_cast<double>(Hq);
}

float default_scale(Index d) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d))); }

void validate(const Problem& p) {
  require_size("B", p.B, 1);
  require_size("Hq", p.Hq, 1);
  require_size("Hkv", p.Hkv, 1);
  require_size("Nq", p.Nq, 0);
  require_size("Nkv", p.Nkv, 0);
  require_size("d", p.d, 1);
  if (p.Hq % p.Hkv != 0)
    throw Refused(fmt::format(
        "Hq = {} query heads over Hkv = {} KV heads: Hq must be a multiple of Hkv", p.Hq, p.Hkv));
  if (!std::isfinite(p.scale))
    throw Refused(fmt::format(
        "scale = {}: must be finite (default 1/sqrt(d) = {})", p.scale, default_scale(p.d)));
  require_window("left", p.window_left);
  require_window("right", p.window_right);
  require_tensor("Q", p.B, p.Hq, p.Nq, p.d);
  require_tensor("K", p.B, p.Hkv, p.Nkv, p.d);
}

std::string describe(const Problem& p) {
  std::string text = fmt::format("B={} Hq={} Hkv={} Nq={} Nkv={} d={} {} scale={:g}",
                                 p.B,
                                 p.Hq,
                                 p.Hkv,
                                 p.Nq,
                                 p.Nkv,
                                 p.d,
                                 name_of(p.dtype),
                                 p.scale);
  if (p.causal) text += " causal";
  if (p.window_left >= 0 || p.window_right >= 0)
    text += fmt::format(" window=({},{})", p.window_left, p.window_right);
  return text;
}

}  // namespace fa
