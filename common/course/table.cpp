#include "common/course/table.hpp"

#include <algorithm>

#include "common/course/text.hpp"

namespace fa::course {

namespace {
std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(count, 0)), ' ');
}
}  // namespace

std::string Table::text(int indent) const {
  std::vector<int> widths;
  for (const std::string& head : heads) widths.push_back(width_of(head));
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string result = spaces(indent);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string pad = spaces(widths[c] - width_of(cells[c]));
      result += (c == 0 ? "" : "  ") + (left[c] ? cells[c] + pad : pad + cells[c]);
    }
    return result.substr(0, result.find_last_not_of(' ') + 1) + "\n";
  };
  std::string result = line(heads);
  for (const auto& row : rows) result += line(row);
  return result;
}

std::string Table::markdown() const {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string result = "|";
    for (const std::string& cell : cells) result += " " + cell + " |";
    return result + "\n";
  };
  std::vector<std::string> rule;
  for (const bool flush_left : left) rule.push_back(flush_left ? "---" : "---:");
  std::string result = line(heads) + line(rule);
  for (const auto& row : rows) result += line(row);
  return result;
}

}  // namespace fa::course
