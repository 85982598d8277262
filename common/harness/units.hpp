// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

#include "common/attention/types.hpp"

namespace fa {

/// "512 B", "8.39 MB", "34.4 GB": powers of 1000.
std::string bytes_text(double bytes);

/// "812 us", "12.3 ms", "4.56 s".
std::string seconds_text(double seconds);

/// "714 GFLOP/s", "5.01 TFLOP/s".
std::string rate_text(double gflop_per_s);

/// "65,536".
std::string count_text(Index count);

/// 12,345,678 as "12.3M".
std::string short_count(std::uint64_t count);

/// Control characters replaced, so that whatever a name or value holds, a message is one line.
std::string one_line(std::string text);

}  // namespace fa
