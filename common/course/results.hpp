// Recorded measurements: what stages reported on a named machine, kept as JSON so that a page can
// quote it. `./learn record` writes the files; nobody edits them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fa::course {

/// A recorded file. Throws Refused when it can't be read.
nlohmann::json read_results(const std::filesystem::path& path);

/// The number at `key`, a JSON pointer ("/runs/0/time_ms"). Throws Refused when there is none.
double number_at(const nlohmann::json& results, const std::string& key);

/// A number in one of the formats "bytes" (8.39 MB), "time" (seconds as 12.3 ms), "count" (65,536),
/// "flop" (4.29 GFLOP), or any that fmt understands, say "{:.1f}". Throws Refused for another.
std::string formatted(double value, const std::string& format);

/// "Name of CPU (8 cores), 2025-01-31: `command`": where the numbers come from. A machine with a
/// "gpu" is named by that.
std::string provenance(const nlohmann::json& results);

}  // namespace fa::course
