#include "common/course/regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/course/text.hpp"

namespace fa::course {

namespace {

/// What stands behind `keyword` in a marker line; nothing when the line is no such marker.
std::optional<std::string> marker(const std::string& line, const std::string& keyword) {
  const std::string start = "//# " + keyword, text = trimmed(line);
  if (text.compare(0, start.size(), start) != 0) return std::nullopt;
  if (text.size() > start.size() && text[start.size()] != ' ') return std::nullopt;
  return trimmed(text.substr(start.size()));
}

}  // namespace

bool is_marker(const std::string& line) {
  const std::string start = trimmed(line).substr(0, 3);
  return start == "//#" || start == "//|";
}

std::string strip_markers(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_marker), lines.end());
  return joined(lines);
}

std::vector<Region> parse_regions(const std::string& text, const std::string& file) {
  std::vector<Region> regions;
  bool open = false;
  int number = 0;
  const auto fail = [&](int line, const std::string& what) {
    throw MarkerError(fmt::format("{}:{}: {}", file, line, what));
  };
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (const auto head = marker(line, "region")) {
      const std::string name = head->substr(0, head->find(' '));
      if (open)
        fail(number, fmt::format("region {} begins inside region {}", name, regions.back().name));
      if (name.empty()) fail(number, "a region without a name");
      for (const Region& other : regions)
        if (other.name == name)
          fail(number,
               fmt::format("region {} is there already, in line {}", name, other.first_line - 1));
      open = true;
      regions.push_back({name, trimmed(head->substr(name.size())), number + 1, number, {}});
    } else if (marker(line, "endregion")) {
      if (!open) fail(number, "endregion without a region");
      open = false;
    } else if (open) {
      Region& region = regions.back();
      region.last_line = number;
      if (!is_marker(line)) region.lines.push_back(line);
    }
  }
  if (open)
    fail(regions.back().first_line - 1,
         fmt::format("region {} has no endregion", regions.back().name));
  return regions;
}

const Region& find_region(const std::vector<Region>& regions,
                          const std::string& name,
                          const std::string& file) {
  std::string names;
  for (const Region& region : regions) {
    if (region.name == name) return region;
    names += (names.empty() ? "" : ", ") + region.name;
  }
  throw MarkerError(
      fmt::format("{}: no region {}; it has {}", file, name, names.empty() ? "none" : names));
}

std::vector<std::string> lines_between_regions(const std::string& text) {
  std::vector<std::string> outside;
  bool open = false;
  for (const std::string& line : lines_of(text)) {
    if (marker(line, "region"))
      open = true;
    else if (marker(line, "endregion"))
      open = false;
    else if (!open && !is_marker(line))
      outside.push_back(line);
  }
  return outside;
}

}  // namespace fa::course
