#include "common/harness/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fa {

namespace {
/// Three digits that count: 1.23, 12.3, 123.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}
}  // namespace

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  for (bytes /= 1000; bytes >= 999.5 && unit < 5; ++unit) bytes /= 1000;
  return three_digits(bytes) + " " + units[unit];
}

std::string seconds_text(double seconds) {
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

std::string rate_text(double gflop_per_s) {
  return gflop_per_s < 1000 ? fmt::format("{:.3g} GFLOP/s", gflop_per_s)
                            : fmt::format("{:.3g} TFLOP/s", gflop_per_s / 1000);
}

std::string count_text(Index count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3 + (digits[0] == '-'); at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

std::string short_count(std::uint64_t count) {
  const double n = static_cast<double>(count);
  if (n < 1e4) return std::to_string(count);
  return n < 1e6 ? fmt::format("{:.3g}k", n / 1e3) : fmt::format("{:.3g}M", n / 1e6);
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace fa
