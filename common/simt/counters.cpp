#include "common/simt/counters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fa::simt {

Counters& Counters::operator+=(const Counters& other) {
#define FA_SIMT_ADD(name, meaning) name += other.name;
  FA_SIMT_COUNTERS(FA_SIMT_ADD)
  FA_SIMT_RARE_COUNTERS(FA_SIMT_ADD)
#undef FA_SIMT_ADD
  return *this;
}

std::string Counters::text() const {
  std::string lines;
#define FA_SIMT_LINE(name, meaning) \
  if (name) lines += fmt::format("  {:<24} {:>14}  {}\n", #name, name, meaning);
  FA_SIMT_COUNTERS(FA_SIMT_LINE)
  FA_SIMT_RARE_COUNTERS(FA_SIMT_LINE)
#undef FA_SIMT_LINE
  return lines;
}

Wavefronts shared_wavefronts(const WarpAccess& access) {
  const int words = std::max(1, access.bytes / 4);  // that a lane takes
  const int lanes_together = 32 / words;
  Wavefronts total;
  int i = 0;
  for (int part = 0; part < words; ++part) {
    std::uint64_t seen[32][32];  // [bank][…] different words
    int depth[32] = {};
    int deepest = 0;
    for (; i < access.lanes && access.lane[i] < (part + 1) * lanes_together; ++i)
      for (int w = 0; w < words; ++w) {
        const std::uint64_t word = access.at[i] / 4 + static_cast<std::uint64_t>(w);
        const std::size_t bank = word % 32;
        int& n = depth[bank];
        if (std::find(seen[bank], seen[bank] + n, word) != seen[bank] + n) continue;
        seen[bank][n++] = word;
        deepest = std::max(deepest, n);
      }
    total.all += deepest;
    total.conflicts += std::max(0, deepest - 1);
  }
  return total;
}

int global_sectors(const WarpAccess& access) {
  std::uint64_t seen[32 * 2];
  int n = 0;
  for (int i = 0; i < access.lanes; ++i)
    for (std::uint64_t sector = access.at[i] / 32;
         sector <= (access.at[i] + static_cast<std::uint64_t>(access.bytes) - 1) / 32;
         ++sector)
      if (n == 0 || seen[n - 1] != sector) seen[n++] = sector;  // neighbours share sectors
  std::sort(seen, seen + n);
  return static_cast<int>(std::unique(seen, seen + n) - seen);
}

}  // namespace fa::simt
