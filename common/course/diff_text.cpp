#include "common/course/diff_text.hpp"

#include <fmt/format.h>

#include "common/course/stages.hpp"
#include "common/course/step_diff.hpp"
#include "common/course/text.hpp"

namespace fa::course {

namespace {

const char* word(RegionDiff::Kind kind) {
  switch (kind) {
    case RegionDiff::kChanged:
      return "changed";
    case RegionDiff::kNew:
      return "new";
    case RegionDiff::kGone:
      return "gone";
    case RegionDiff::kIdentical:
      break;
  }
  return "identical";
}

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}

  std::string line(char sign, const std::string& text) const {
    const char* code = sign == '+' ? "32" : sign == '-' ? "31" : nullptr;
    return paint(code, fmt::format("{} {}", sign, text)) + "\n";
  }
  std::string head(const std::string& text) const { return paint("1", text) + "\n"; }

 private:
  std::string paint(const char* code, const std::string& text) const {
    const std::string end = text.substr(0, text.find_last_not_of(' ') + 1);
    return colour_ && code != nullptr ? fmt::format("\033[{}m{}\033[0m", code, end) : end;
  }
  bool colour_;
};

/// Code that didn't change between two changes: shown up to this many lines, else as "…".
constexpr std::size_t kContext = 2;

std::string changed_lines(const RegionDiff& region, const Painter& painter) {
  std::string text;
  std::size_t end_of_changes = 0;  // stays 0 where nothing changed
  for (std::size_t at = 0; at < region.lines.size(); ++at)
    if (region.lines[at].sign != ' ') end_of_changes = at + 1;
  bool changed_before = false;
  for (std::size_t at = 0; at < end_of_changes;) {
    if (region.lines[at].sign != ' ') {
      text += painter.line(region.lines[at].sign, region.lines[at].text);
      changed_before = true;
      ++at;
      continue;
    }
    std::size_t end = at;
    while (region.lines[end].sign == ' ') ++end;  // ends: a change follows
    if (changed_before && end - at <= kContext)
      for (std::size_t kept = at; kept < end; ++kept)
        text += painter.line(' ', region.lines[kept].text);
    else if (changed_before)
      text += painter.line(' ', "…");
    at = end;
  }
  return text;
}

}  // namespace

std::string diff_text(const std::filesystem::path& root,
                      const std::string& before,
                      const std::string& after,
                      bool colour) {
  const CourseStage &a = stage_by_label(before), &b = stage_by_label(after);
  const Painter painter(colour);
  const std::vector<RegionDiff> regions = region_diff(read_text(root / a.source_path()),
                                                      a.source_path(),
                                                      read_text(root / b.source_path()),
                                                      b.source_path());

  std::string text = fmt::format("{} → {}\n\n", a.source_path(), b.source_path());
  for (const RegionDiff& region : regions) {
    const bool between = region.name.empty();
    std::string head =
        fmt::format("@@ {:<9} {}", between ? "around" : region.name, word(region.kind));
    if (region.kind != RegionDiff::kIdentical)
      head += fmt::format("  +{} −{}", region.count('+'), region.count('-'));
    if (between || region.kind == RegionDiff::kNew || region.kind == RegionDiff::kGone)
      if (!region.caption.empty()) head += "  " + region.caption;
    text += painter.head(head) + changed_lines(region, painter);
  }

  const StepDiff total = step_diff(root / a.source_path(), root / b.source_path());
  text += fmt::format("\ngit diff -w, without markers: +{} −{} in {} hunk{}",
                      total.added,
                      total.removed,
                      total.hunks,
                      total.hunks == 1 ? "" : "s");
  const CourseStage* last = course::before(b);
  if (last != nullptr && last->label() == a.label() && b.budget.added > 0) {
    text += fmt::format(" (budget +{}", b.budget.added);
    if (b.budget.hunks > 0) text += fmt::format(" in {} hunks", b.budget.hunks);
    text += ")";
  }
  return text + "\n";
}

}  // namespace fa::course
