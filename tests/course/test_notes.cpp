// Filled pages: what is generated, what is stale, what is refused.
#include "common/course/notes.hpp"

#include <algorithm>

#include "common/course/regions.hpp"
#include "tests/catch.hpp"
#include "tests/io/files.hpp"

using namespace fa::course;

namespace {
const std::filesystem::path kRoot = FA_SOURCE_DIR;

FilledPage fill(const std::string& text) { return fill_page(kRoot, "page.md", text); }

const std::string kMarker =
    "<!-- fill: region stage2_online_softmax_cpu/attention.cpp rescale -->\n";
}  // namespace

TEST_CASE("A stale part is named by file and line, and filled once it stays") {
  const FilledPage first = fill("# Page\n\n" + kMarker + "old\n<!-- end fill -->\nafter\n");
  REQUIRE(first.stale.size() == 1);
  CHECK(first.stale[0].compare(0, 10, "page.md:3:") == 0);
  CHECK(first.text.find("const float alpha = exp_minus(m_old, m);") != std::string::npos);
  CHECK(first.text.find("//#") == std::string::npos);
  CHECK(first.text.find("old\n<!--") == std::string::npos);
  CHECK(first.text.find("\nafter\n") != std::string::npos);
  const FilledPage second = fill(first.text);
  CHECK(second.stale.empty());
  CHECK(second.text == first.text);
}

TEST_CASE("Text without markers, and markers in a code fence, stay as they are") {
  const std::string text = "# Page\n```\n" + kMarker + "```\n| a | b |\n";
  CHECK(fill(text).text == text);
}

TEST_CASE("Markers that don't fit are refused with file and line") {
  const auto refused = [](const std::string& text, const std::string& with) {
    INFO(text);
    try {
      fill(text);
      FAIL("not refused");
    } catch (const MarkerError& error) {
      INFO(error.what());
      CHECK(std::string(error.what()).find(with) != std::string::npos);
    }
  };
  const std::string end = "<!-- end fill -->\n";
  refused("x\n" + kMarker + "text\n", "page.md:2: fill has no end");
  refused(end, "page.md:1: end fill without a fill");
  refused(kMarker + kMarker + end, "page.md:2: fill begins inside another");
  refused("<!-- fill: nonsense -->\n" + end, "page.md:1: fill: nonsense: must be region, diff");
  refused("<!-- fill: region stage1_naive/attention.cpp rescale -->\n" + end, "no region rescale");
  refused("<!-- fill: region stage1_naive/nowhere.cpp rescale -->\n" + end, "can't be read");
  refused("<!-- fill: result cpu time /x -->1<!-- end fill -->\n", "page.md:1: no number /x");
  refused("<!-- fill: run ./learn tour -->\n" + end, "only example, fault and diff");
}

TEST_CASE("What needs a record that is not there waits, and stays as it is") {
  const std::string text = "It takes <!-- fill: result none time /x -->?<!-- end fill -->.\n";
  const FilledPage page = fill(text + kMarker + "old\n<!-- end fill -->\n");
  REQUIRE(page.waiting.size() == 1);
  CHECK(page.waiting[0] == "page.md:1: result none time /x: waits for notes/results/none.json");
  CHECK(page.text.compare(0, text.size(), text) == 0);
  CHECK(page.stale.size() == 1);
}

TEST_CASE("A table is of the record's rows, or of another list of it") {
  const fa::TemporaryDirectory root;
  std::filesystem::create_directories(root / "notes/results");
  fa::write_bytes(root / "notes/results/counts.json", R"({
    "rows": [{"step": "6a", "mma": 69632, "rate": 1.5},
             {"step": "6b", "mma": 69632, "refused": "d = 96"}],
    "causal": [{"step": "6a", "mma": 34816, "rate": 2.5}]})");
  const std::string end = "<!-- end fill -->\n";
  const auto table = [&](const std::string& words) {
    const FilledPage page =
        fill_page(root.path(), "page.md", "<!-- fill: rows " + words + " -->\n" + end);
    CHECK(page.stale.size() == 1);
    return page.text;
  };
  const std::string rows = table("counts step mma=count");
  CHECK(rows.find("| step | mma |\n") != std::string::npos);
  CHECK(rows.find("| 6b | 69,632 |\n") != std::string::npos);
  CHECK(table("counts/causal step mma=count").find("| 6a | 34,816 |\n") != std::string::npos);
  CHECK_THROWS_AS(table("counts/nowhere step"), MarkerError);
  // What a step refused has no rate; what no row has is a mistake.
  CHECK(table("counts step rate").find("| 6b |  |\n") != std::string::npos);
  CHECK_THROWS_AS(table("counts step no_such"), MarkerError);
}

TEST_CASE("The course has its pages") {
  const auto names = pages(kRoot);
  for (const char* page : {"README.md",
                           "notes/00_start_here.md",
                           "notes/notation.md",
                           "notes/01_naive.md",
                           "notes/02_online_softmax.md",
                           "notes/03_tiled_cpu.md",
                           "notes/04_simple_cuda.md",
                           "notes/05_mma_pipeline.md",
                           "notes/emulator.md",
                           "stage1_naive/README.md",
                           "stage2_online_softmax_cpu/README.md",
                           "stage3_tiled_cpu/README.md",
                           "stage4_simple_cuda/README.md",
                           "stage5_mma_pipeline/README.md",
                           "stage5_mma_pipeline/hints.md"}) {
    INFO(page);
    CHECK(std::find(names.begin(), names.end(), std::filesystem::path(page)) != names.end());
  }
}
