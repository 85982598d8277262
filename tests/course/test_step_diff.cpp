// The step diff: counted as git counts, and sorted by region. (Budgets: tests/budget.)
#include "common/course/step_diff.hpp"

#include "common/course/diff_text.hpp"
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

TEST_CASE("Stages and steps are found by their labels, and others refused by naming them") {
  CHECK(stage_by_label("4").folder == "stage4_simple_cuda");
  CHECK(before(stage_by_label("2"))->label() == "1");
  CHECK(before(stage_by_label("1")) == nullptr);
  for (const char* unknown : {"6", "5.9", "5a", "4.1", "", "5."}) {
    INFO(unknown);
    CHECK_THROWS_WITH(stage_by_label(unknown),
                      Catch::Matchers::ContainsSubstring("must be from 1"));
  }
  CHECK(stage_by_label("5").step == steps().back().step);
  CHECK(stage_by_label("5.1").source == "step1_tensor_cores.cuh");
  CHECK(stage_by_label("5.5a").source == "step5a_rows32.cuh");
  CHECK(before(stage_by_label("5.1"))->label() == "4");
  CHECK(before(stage_by_label("5.5a"))->label() == "5.4");
  CHECK_THROWS_WITH(stage_by_label("5.9"), Catch::Matchers::ContainsSubstring("5.5a"));
}

TEST_CASE("A step diff of two steps names their files and the budget") {
  const std::string text = diff_text(kRoot, "5.1", "5.2", false);
  CHECK(text.find("stage5_mma_pipeline/step1_tensor_cores.cuh → "
                  "stage5_mma_pipeline/step2_swizzle_ldmatrix.cuh") == 0);
  CHECK(text.find("(budget +30 in 8 hunks)") != std::string::npos);
  CHECK(diff_text(kRoot, "4", "5.1", false).find("(budget +120)") != std::string::npos);
  CHECK(diff_text(kRoot, "5.1", "5.3", false).find("budget") == std::string::npos);
  for (std::size_t s = 1; s < steps().size(); ++s)  // all can be shown
    CHECK_NOTHROW(diff_text(kRoot, steps()[s - 1].label(), steps()[s].label(), false));
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
