// What changes from one stage to the next, counted as `git diff -w` counts it and shown by region.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fa::course {

/// Lines and hunks as `git diff -w` reports them for the files without their markers.
struct StepDiff {
  int added = 0;
  int removed = 0;
  int hunks = 0;  // with git's three lines of context
};

/// Throws Refused when a file can't be read or there is no git.
StepDiff step_diff(const std::filesystem::path& before, const std::filesystem::path& after);

/// One line of a comparison: kept (' '), removed ('-') or added ('+').
struct DiffLine {
  char sign = ' ';
  std::string text;
};

/// A shortest edit from one list of lines to the other; space at the ends of a line doesn't count.
std::vector<DiffLine> diff_lines(const std::vector<std::string>& before,
                                 const std::vector<std::string>& after);

/// One region in both files.
struct RegionDiff {
  enum Kind { kIdentical, kChanged, kNew, kGone };
  std::string name;  // empty: the lines between the regions
  std::string caption;
  Kind kind = kIdentical;
  std::vector<DiffLine> lines;  // removed and added, and what is kept between them

  int count(char sign) const;
};

/// The regions of both sources in the order of `after`, those that are gone where they stood, and
/// last the lines between the regions. Throws MarkerError.
std::vector<RegionDiff> region_diff(const std::string& before,
                                    const std::string& before_name,
                                    const std::string& after,
                                    const std::string& after_name);

}  // namespace fa::course
