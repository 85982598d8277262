#include "common/harness/memory.hpp"

#include <sys/resource.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace fa {

namespace {

/// The number behind `key` in a file of lines "key number …"; with an empty key, the first number.
std::optional<double> number_in(const std::string& file, const std::string& key = "") {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    std::istringstream rest(line.substr(key.size()));
    double number = 0;
    if (rest >> number) return number;
  }
  return std::nullopt;
}

#ifdef __APPLE__
std::optional<double> available_in_machine() {
  // All that is installed: macOS has no cheap figure for what is free, and compresses before it
  // kills.
  std::uint64_t bytes = 0;
  std::size_t size = sizeof bytes;
  if (sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) != 0) return std::nullopt;
  return static_cast<double>(bytes);
}
#else
std::optional<double> available_in_machine() {
  const auto kib = number_in("/proc/meminfo", "MemAvailable:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}
#endif

/// What a control group may still take: its limit less its use, where cached files count as free.
std::optional<double> available_in(const std::string& group,
                                   const char* limit_file,
                                   const char* usage_file,
                                   const char* cached_key) {
  const auto limit = number_in(group + limit_file);  // the word "max" is no number: no limit
  const auto used = number_in(group + usage_file);
  if (!limit || !used) return std::nullopt;
  const double cached = number_in(group + "/memory.stat", cached_key).value_or(0);
  return std::max(0.0, *limit - (*used - cached));
}

/// The groups of this process, each from its own up to the root, in both versions of the interface.
/// In a container the root of its view is its own group, whatever the path says.
void append_group_limits(std::vector<double>& limits) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    // "0::/path" (version 2) or "4:memory:/path" (version 1).
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_1 = controllers == "memory";
    if (!version_1 && !controllers.empty()) continue;
    const std::string root = version_1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    std::string path = line.substr(second + 1);
    for (;;) {
      if (path == "/") path.clear();
      const auto free =
          version_1 ? available_in(root + path,
                                   "/memory.limit_in_bytes",
                                   "/memory.usage_in_bytes",
                                   "total_inactive_file ")
                    : available_in(root + path, "/memory.max", "/memory.current", "inactive_file ");
      if (free) limits.push_back(*free);
      if (path.empty() || path[0] != '/') break;
      path.resize(path.find_last_of('/'));
    }
  }
}

void append_process_limit(std::vector<double>& limits) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const double used = number_in("/proc/self/status", "VmSize:").value_or(0) * 1024;
  limits.push_back(std::max(0.0, static_cast<double>(limit.rlim_cur) - used));
}

}  // namespace

std::optional<double> available_memory() {
  std::vector<double> limits;
  if (const auto machine = available_in_machine()) limits.push_back(*machine);
  append_group_limits(limits);
  append_process_limit(limits);
  if (limits.empty()) return std::nullopt;
  return *std::min_element(limits.begin(), limits.end());
}

}  // namespace fa
