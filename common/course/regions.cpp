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
  std::vector<std::size_t> open;  // from the outermost to the innermost
  int number = 0;
  const auto fail = [&](int line, const std::string& what) {
    throw MarkerError(fmt::format("{}:{}: {}", file, line, what));
  };
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (const auto head = marker(line, "region")) {
      const std::string name = head->substr(0, head->find(' '));
      if (name.empty()) fail(number, "a region without a name");
      for (const Region& other : regions)
        if (other.name == name)
          fail(number,
               fmt::format("region {} is there already, in line {}", name, other.first_line - 1));
      regions.push_back({name,
                         trimmed(head->substr(name.size())),
                         number + 1,
                         number,
                         {},
                         {},
                         open.empty() ? "" : regions[open.back()].name});
      open.push_back(regions.size() - 1);
    } else if (marker(line, "endregion")) {
      if (open.empty()) fail(number, "endregion without a region");
      open.pop_back();
    } else if (!open.empty()) {
      for (const std::size_t at : open) {
        regions[at].last_line = number;
        if (!is_marker(line)) regions[at].lines.push_back(line);
      }
      if (!is_marker(line)) regions[open.back()].own.push_back(line);
    }
  }
  if (!open.empty()) {
    const Region& left = regions[open.back()];
    fail(left.first_line - 1, fmt::format("region {} has no endregion", left.name));
  }
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
  int open = 0;
  for (const std::string& line : lines_of(text)) {
    if (marker(line, "region"))
      ++open;
    else if (marker(line, "endregion"))
      --open;
    else if (open == 0 && !is_marker(line))
      outside.push_back(line);
  }
  return outside;
}

}  // namespace fa::course
