#include "common/harness/suggest.hpp"

#include <algorithm>
#include <cctype>

namespace fa {

namespace {
std::string bare(const std::string& name) {
  std::string result;
  for (const char c : name.substr(std::min(name.find_first_not_of('-'), name.size())))
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Insertions, deletions, replacements and swaps of neighbours that turn a into b (Damerau).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> D(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) D[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) D[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = D[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      D[i][j] = std::min({D[i - 1][j] + 1, D[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        D[i][j] = std::min(D[i][j], D[i - 2][j - 2] + 1);
    }
  return D[a.size()][b.size()];
}
}  // namespace

std::string nearest(const std::string& typed, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 40;  // no flag is longer, and distances cost the product
  const std::string wanted = bare(typed);
  if (wanted.empty() || wanted.size() > kLongest) return "";
  std::string best;
  std::size_t best_distance = wanted.size() / 3 + 1;  // a third of the letters may be wrong
  for (const std::string& name : names) {
    const std::string candidate = bare(name);
    const bool is_start = wanted.size() >= 3 && candidate.compare(0, wanted.size(), wanted) == 0;
    const std::size_t distance = is_start ? 0 : edit_distance(wanted, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace fa
