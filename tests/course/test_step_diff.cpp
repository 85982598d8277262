// The step diff: counted as git counts, and sorted by region. (Budgets: tests/budget.)
#include "common/course/step_diff.hpp"

#include "common/course/stages.hpp"
#include "tests/catch.hpp"

using namespace fa::course;

namespace {
const std::filesystem::path kRoot = FA_SOURCE_DIR;
}

TEST_CASE("A step diff is zero between a stage and itself") {
  const auto source = kRoot / stages().front().source_path();
  const StepDiff same = step_diff(source, source);
  CHECK(same.added == 0);
  CHECK(same.removed == 0);
  CHECK(same.hunks == 0);
}

TEST_CASE("Lines are compared without the space around them") {
  const auto lines = diff_lines({"a", "  b", "c"}, {"a", "b", "d"});
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].sign == ' ');
  CHECK((lines[2].sign == '-' && lines[2].text == "c"));
  CHECK((lines[3].sign == '+' && lines[3].text == "d"));
}

TEST_CASE("Regions are new, gone, changed or identical") {
  const auto source = [](const std::string& name, const std::string& line) {
    return "//# region " + name + "\n" + line + "\n//# endregion\n";
  };
  const auto diffs = region_diff(source("kept", "a") + source("gone", "b") + source("moved", "c"),
                                 "old",
                                 source("kept", "  a") + source("new", "d") + source("moved", "e"),
                                 "new");
  REQUIRE(diffs.size() == 5);
  CHECK((diffs[0].name == "kept" && diffs[0].kind == RegionDiff::kIdentical));
  CHECK((diffs[1].name == "new" && diffs[1].kind == RegionDiff::kNew));
  CHECK((diffs[2].name == "gone" && diffs[2].kind == RegionDiff::kGone));
  CHECK((diffs[3].name == "moved" && diffs[3].kind == RegionDiff::kChanged));
  CHECK((diffs[4].name.empty() && diffs[4].kind == RegionDiff::kIdentical));
}
