// float16 and bfloat16 against Eigen's. Compiled twice: with the processor's own conversion (F16C)
// where there is one, and without, in test_conformance_sse2.
#include "common/attention/types.hpp"

#include <Eigen/Core>
#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace fa;

namespace {

template <class Ours, class Theirs>
Index wrong_to_float() {
  Index wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Ours ours;
    ours.bits = static_cast<std::uint16_t>(bits);
    const auto got = static_cast<float>(ours);
    const auto right =
        static_cast<float>(Eigen::numext::bit_cast<Theirs>(static_cast<std::uint16_t>(bits)));
    wrong += std::isnan(right) ? !std::isnan(got) : detail::bits_of(got) != detail::bits_of(right);
  }
  return wrong;
}

/// 1 if the conversion of a float differs from Eigen's; any NaN is as good as another of its sign.
template <class Ours, class Theirs>
Index wrong_from_float(std::uint32_t bits) {
  const float x = detail::float_of(bits);
  const std::uint16_t got = Ours(x).bits;
  if (std::isnan(x)) return !std::isnan(static_cast<float>(Ours(x)));
  return got != Eigen::numext::bit_cast<std::uint16_t>(Theirs(x));
}

/// Every sign and exponent, with fractions at the edges of rounding: 0, all ones, ties after each
/// number of kept bits, one below and one above each.
template <class Ours, class Theirs>
Index wrong_at_edges() {
  Index wrong = 0;
  for (std::uint32_t sign_exponent = 0; sign_exponent < 0x200; ++sign_exponent)
    for (std::uint32_t bit = 0; bit < 23; ++bit)
      for (const std::uint32_t above : {0u, 1u, 2u, 3u, 0x155555u, 0x7fffffu})
        for (const std::uint32_t nudge : {0u, 1u, 0xffffffffu}) {
          const std::uint32_t fraction = ((above << (bit + 1)) + (1u << bit) + nudge) & 0x7fffff;
          wrong += wrong_from_float<Ours, Theirs>((sign_exponent << 23) | fraction);
        }
  return wrong;
}

template <class Ours, class Theirs>
Index wrong_at_random() {
  std::mt19937 random(7);
  Index wrong = 0;
  for (int n = 0; n < 1'000'000; ++n)
    wrong += wrong_from_float<Ours, Theirs>(static_cast<std::uint32_t>(random()));
  return wrong;
}

/// Every value that the type has, and the middle between it and the next, and one to either side.
template <class Ours, class Theirs>
Index wrong_around_values() {
  Index wrong = 0;
  for (std::uint32_t bits = 0; bits < 0xffff; ++bits) {
    Ours low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const auto a = static_cast<float>(low), b = static_cast<float>(high);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const std::uint32_t middle = detail::bits_of((a + b) / 2);
    for (const std::uint32_t at : {detail::bits_of(a), middle - 1, middle, middle + 1})
      wrong += wrong_from_float<Ours, Theirs>(at);
    wrong += Ours(a).bits != low.bits;
  }
  return wrong;
}

}  // namespace

TEST_CASE("Every float16 becomes the right float32", "[types]") {
  CHECK(wrong_to_float<float16, Eigen::half>() == 0);
}

TEST_CASE("Every bfloat16 becomes the right float32", "[types]") {
  CHECK(wrong_to_float<bfloat16, Eigen::bfloat16>() == 0);
}

TEST_CASE("float32 rounds to the nearest float16, ties to even", "[types]") {
  CHECK(wrong_at_edges<float16, Eigen::half>() == 0);
  CHECK(wrong_around_values<float16, Eigen::half>() == 0);
  CHECK(wrong_at_random<float16, Eigen::half>() == 0);
  CHECK(static_cast<float>(float16(65519.0f)) == 65504.0f);
  CHECK(static_cast<float>(float16(65520.0f)) == INFINITY);
  CHECK(static_cast<float>(float16(0x1p-25f)) == 0.0f);             // a tie, to even
  CHECK(static_cast<float>(float16(0x1.000002p-25f)) == 0x1p-24f);  // above it
}

TEST_CASE("float32 rounds to the nearest bfloat16, ties to even", "[types]") {
  CHECK(wrong_at_edges<bfloat16, Eigen::bfloat16>() == 0);
  CHECK(wrong_around_values<bfloat16, Eigen::bfloat16>() == 0);
  CHECK(wrong_at_random<bfloat16, Eigen::bfloat16>() == 0);
  CHECK(static_cast<float>(bfloat16(257.0f)) == 256.0f);
  CHECK(static_cast<float>(bfloat16(3.4e38f)) == INFINITY);
}

TEST_CASE("The 16-bit types have no arithmetic of their own: products are float32", "[types]") {
  static_assert(std::is_same_v<decltype(float16() * float16()), float>);
  static_assert(std::is_same_v<decltype(bfloat16() + bfloat16()), float>);
  static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);
  CHECK(bfloat16(300.0f) * bfloat16(300.0f) == 90000.0f);
}

TEST_CASE("Unit roundoff is half the distance from 1 to the next number", "[types]") {
  float16 half(1.0f);
  bfloat16 brain(1.0f);
  ++half.bits;
  ++brain.bits;
  CHECK(roundoff_of(DType::float16) == static_cast<double>(half - 1.0f) / 2);
  CHECK(roundoff_of(DType::bfloat16) == static_cast<double>(brain - 1.0f) / 2);
  CHECK(roundoff_of(DType::float32) == static_cast<double>(std::nextafter(1.0f, 2.0f) - 1.0f) / 2);
}
