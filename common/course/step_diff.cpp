#include "common/course/step_diff.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/attention/problem.hpp"
#include "common/course/regions.hpp"
#include "common/course/subprocess.hpp"
#include "common/course/text.hpp"

namespace fa::course {

namespace {

/// A folder of its own under the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "step_diff.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Refused(name + ": can't be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

StepDiff step_diff(const std::filesystem::path& before, const std::filesystem::path& after) {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "before").string(), b = (folder.path() / "after").string();
  write_text(a, strip_markers(read_text(before)));
  write_text(b, strip_markers(read_text(after)));
  // The reader's own settings (context lines, an external diff, colour) must not change the counts.
  const Finished git = run_program({"git",
                                    "diff",
                                    "-w",
                                    "--no-index",
                                    "--no-ext-diff",
                                    "--no-color",
                                    "--no-textconv",
                                    "--diff-algorithm=myers",
                                    "--no-indent-heuristic",
                                    "--inter-hunk-context=0",
                                    "-U3",
                                    a,
                                    b});
  if (git.exit_code > 1) throw Refused("git is needed to count changed lines, and didn't run");
  StepDiff diff;
  bool in_hunk = false;  // the two header lines also begin with + and −
  for (const std::string& line : lines_of(git.output)) {
    if (line.compare(0, 2, "@@") == 0) {
      ++diff.hunks;
      in_hunk = true;
    } else if (in_hunk && !line.empty()) {
      diff.added += line[0] == '+';
      diff.removed += line[0] == '-';
    }
  }
  return diff;
}

std::vector<DiffLine> diff_lines(const std::vector<std::string>& before,
                                 const std::vector<std::string>& after) {
  const std::size_t n = before.size(), m = after.size();
  const auto same = [&](std::size_t i, std::size_t j) {
    return trimmed(before[i]) == trimmed(after[j]);
  };
  // common[i][j]: the longest common subsequence of before[i..] and after[j..].
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      common[i][j] =
          same(i, j) ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::vector<DiffLine> lines;
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && same(i, j)) {
      lines.push_back({' ', after[j]});
      ++i, ++j;
    } else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1])) {
      lines.push_back({'-', before[i++]});
    } else {
      lines.push_back({'+', after[j++]});
    }
  }
  return lines;
}

int RegionDiff::count(char sign) const {
  return static_cast<int>(std::count_if(
      lines.begin(), lines.end(), [sign](const DiffLine& line) { return line.sign == sign; }));
}

std::vector<RegionDiff> region_diff(const std::string& before,
                                    const std::string& before_name,
                                    const std::string& after,
                                    const std::string& after_name) {
  const std::vector<Region> old_regions = parse_regions(before, before_name);
  const std::vector<Region> new_regions = parse_regions(after, after_name);
  const auto find = [](const std::vector<Region>& regions, const std::string& name) {
    return std::find_if(
        regions.begin(), regions.end(), [&](const Region& r) { return r.name == name; });
  };
  std::vector<RegionDiff> result;
  const auto compare = [&](const std::string& name,
                           const std::string& caption,
                           const std::vector<std::string>& old_lines,
                           const std::vector<std::string>& new_lines) {
    RegionDiff diff{name, caption, RegionDiff::kIdentical, diff_lines(old_lines, new_lines)};
    if (diff.count('+') + diff.count('-') > 0) diff.kind = RegionDiff::kChanged;
    result.push_back(diff);
  };

  auto next_old = old_regions.begin();
  const auto gone_before = [&](std::vector<Region>::const_iterator end) {
    for (; next_old < end; ++next_old)
      if (find(new_regions, next_old->name) == new_regions.end()) {
        compare(next_old->name, next_old->caption, dedented(next_old->own), {});
        result.back().kind = RegionDiff::kGone;
      }
  };
  for (const Region& region : new_regions) {
    const auto old = find(old_regions, region.name);
    if (old == old_regions.end()) {
      compare(region.name, region.caption, {}, dedented(region.own));
      result.back().kind = RegionDiff::kNew;
    } else {
      gone_before(old);
      compare(region.name, region.caption, dedented(old->own), dedented(region.own));
    }
  }
  gone_before(old_regions.end());
  compare("",
          "the loops and declarations around them",
          lines_between_regions(before),
          lines_between_regions(after));
  return result;
}

}  // namespace fa::course
