// Tables of text for a terminal, and the same tables in Markdown.
#pragma once

#include <string>
#include <vector>

namespace fa::course {

struct Table {
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;  // as many cells each as there are heads
  std::vector<bool> left;                      // columns set flush left; the others flush right

  /// Columns two spaces apart, under a line of heads, each line indented by `indent` spaces.
  std::string text(int indent = 0) const;

  std::string markdown() const;
};

}  // namespace fa::course
