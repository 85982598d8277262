#include "common/course/results.hpp"

#include <fmt/format.h>

#include "common/attention/problem.hpp"
#include "common/course/text.hpp"
#include "common/harness/units.hpp"

namespace fa::course {

namespace {

/// "4.29 GFLOP".
std::string flop_text(double flop) {
  const char* prefixes = " kMGT";
  while (flop >= 1000 && prefixes[1] != 0) {
    flop /= 1000;
    ++prefixes;
  }
  return fmt::format("{:.3g} {}FLOP", flop, *prefixes == ' ' ? "" : std::string(1, *prefixes));
}

}  // namespace

nlohmann::json read_results(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_text(path));
  } catch (const nlohmann::json::exception&) {
    throw Refused(path.string() + ": is not JSON");
  }
}

double number_at(const nlohmann::json& results, const std::string& key) {
  try {
    return results.at(nlohmann::json::json_pointer(key)).get<double>();
  } catch (const nlohmann::json::exception&) {
    throw Refused(fmt::format("no number {} in the results", key));
  }
}

std::string formatted(double value, const std::string& format) {
  if (format == "bytes") return bytes_text(value);
  if (format == "time") return seconds_text(value);
  if (format == "count") return count_text(static_cast<Index>(value));
  if (format == "flop") return flop_text(value);
  if (format.find('{') == std::string::npos)
    throw Refused(
        fmt::format("format '{}': must be bytes, time, count, flop or hold braces", format));
  try {
    return fmt::format(fmt::runtime(format), value);
  } catch (const fmt::format_error& error) {
    throw Refused(fmt::format("format '{}': {}", format, error.what()));
  }
}

std::string provenance(const nlohmann::json& results) {
  const auto& machine = results.at("machine");
  const std::string name = machine.contains("gpu")
                               ? machine.at("gpu").get<std::string>()
                               : fmt::format("{} ({} cores)",
                                             machine.at("cpu").get<std::string>(),
                                             machine.at("cores").get<int>());
  return fmt::format("{}, {}: `{}`",
                     name,
                     results.at("date").get<std::string>(),
                     results.at("command").get<std::string>());
}

}  // namespace fa::course
