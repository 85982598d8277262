// What keeps five programs one lesson: few new lines from stage to stage, the same regions in the
// same order, the recurrence's text unchanged, files that fit a screen.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/course/regions.hpp"
#include "common/course/stages.hpp"
#include "common/course/step_diff.hpp"
#include "tests/catch.hpp"

using namespace fa::course;

namespace {

struct StageFile {
  CourseStage course;  // its budget too
  int most_lines;      // of the file with the algorithm
  std::string path = course.source_path();

  /// No tiles: the mask is asked before a score is computed.
  bool mask_first() const { return course.number <= 2; }
};

constexpr int kMostLinesOfStep = 300;

/// The stages without steps.
const std::vector<StageFile> kStages = [] {
  const std::vector<int> most_lines = {90, 90, 110, 170};
  std::vector<StageFile> files;
  for (const CourseStage& stage : stages())
    if (stage.step.empty()) files.push_back({stage, most_lines.at(files.size())});
  return files;
}();

/// These, and the steps of stage 5.
const std::vector<StageFile> kAll = [] {
  std::vector<StageFile> files = kStages;
  for (const CourseStage& step : steps()) files.push_back({step, kMostLinesOfStep});
  return files;
}();

/// The names that a stage's regions may have, in the order that they must have.
const std::vector<std::string> kOrder = {"load_q",
                                         "load_kv",
                                         "scores",
                                         "mask",
                                         "rowmax",
                                         "rescale",
                                         "exp",
                                         "rowsum",
                                         "pv",
                                         "finish",
                                         "store"};

std::vector<std::string> order_of(const StageFile& stage) {
  std::vector<std::string> order = kOrder;
  if (stage.mask_first()) std::swap(order[2], order[3]);
  return order;
}

std::string path_of(const StageFile& stage) {
  return std::string(FA_SOURCE_DIR) + "/" + stage.path;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Columns that a line takes: UTF-8 characters, not bytes.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

/// The text of a region, all white space left out.
std::string squeezed(const std::string& path, const std::string& region) {
  const std::vector<Region> regions = parse_regions(text_of(path), path);
  std::string result;
  for (const std::string& line : find_region(regions, region, path).lines) {
    for (const char c : line)
      if (c != ' ') result += c;
    result += '\n';
  }
  return result;
}

}  // namespace

namespace {

/// The stage's step diff, and "5.5a  41 new lines in 9 hunks, of 30 in 8".
struct Step {
  StepDiff diff;
  std::string text;
  bool fits = false;

  explicit Step(const StageFile& stage) {
    const CourseStage* last = before(stage.course);
    REQUIRE(last != nullptr);
    const Budget& budget = stage.course.budget;
    diff = step_diff(std::string(FA_SOURCE_DIR) + "/" + last->source_path(), path_of(stage));
    fits = diff.added <= budget.added && (budget.hunks == 0 || diff.hunks <= budget.hunks);
    std::ostringstream line;
    line << stage.course.label() << "  " << diff.added << " new lines in " << diff.hunks
         << " hunks, of " << budget.added;
    if (budget.hunks > 0) line << " in " << budget.hunks;
    text = line.str();
  }
};

}  // namespace

TEST_CASE("Each stage differs from the stage before by few lines in few places") {
  for (std::size_t s = 1; s < kAll.size(); ++s) {
    const Step step(kAll[s]);
    INFO(kAll[s].path << ": " << step.text);
    CHECK(step.diff.added > 0);
    CHECK(step.fits);
  }
}

TEST_CASE("The regions rescale and finish are the same text in stages 2 and 3") {
  for (const std::string region : {"rescale", "finish"}) {
    const std::string text = squeezed(path_of(kStages[1]), region);
    CHECK(text.size() > 40);
    CHECK(text == squeezed(path_of(kStages[2]), region));
  }
}

TEST_CASE("Every stage has its regions in the same order, each with a name that the others use") {
  for (const StageFile& stage : kAll) {
    const std::vector<std::string> order = order_of(stage);
    std::size_t at = 0;
    INFO(stage.path);
    const std::vector<Region> regions = parse_regions(text_of(path_of(stage)), stage.path);
    CHECK(regions.size() >= 9);
    for (const Region& region : regions) {
      INFO("region " << region.name << ", line " << region.first_line);
      const auto found = std::find(order.begin(), order.end(), region.name);
      REQUIRE(found != order.end());
      const auto place = static_cast<std::size_t>(found - order.begin());
      if (region.inside.empty()) {  // else it is done in the middle of another
        CHECK(place >= at);
        at = place;
      }
      CHECK_FALSE(region.lines.empty());
    }
  }
}

TEST_CASE("A stage's file fits its length, and no line is wider than 100 columns") {
  for (const StageFile& stage : kAll) {
    const std::vector<std::string> lines = lines_of(text_of(path_of(stage)));
    INFO(stage.path << ": " << lines.size() << " lines");
    CHECK(static_cast<int>(lines.size()) <= stage.most_lines);
    for (std::size_t n = 0; n < lines.size(); ++n) {
      INFO("line " << n + 1);
      CHECK(columns(lines[n]) <= 100);
    }
  }
}

TEST_CASE("A stage knows the contract and nothing else") {
  const std::vector<std::string> cpu = {"attention.cpp", "attention.hpp"},
                                 cuda = {"attention.cu", "attention.hpp", "kernel.cuh"};
  for (const StageFile& stage : kAll) {
    const std::string folder = path_of(stage).substr(0, path_of(stage).rfind('/') + 1);
    const std::vector<std::string> step = {stage.course.source};
    const std::vector<std::string>& files = !stage.course.step.empty() ? step
                                            : stage.course.on_device   ? cuda
                                                                       : cpu;
    for (const std::string& file : files)
      for (const std::string& line : lines_of(text_of(folder + file))) {
        if (line.rfind("#include \"", 0) != 0) continue;
        INFO(stage.path << ": " << line);
        const std::string included = line.substr(10, line.rfind('"') - 10);
        CHECK((std::count(files.begin(), files.end(), included) == 1 ||
               included.rfind("common/attention/", 0) == 0 ||
               (stage.course.on_device && included.rfind("common/cuda/", 0) == 0)));
        CHECK(included.find("oracle") == std::string::npos);
      }
  }
}

TEST_CASE("Columns are characters, not bytes") {
  CHECK(columns("Σ p·v") == 5);
  CHECK(columns(std::string(100, 'x')) == 100);
}
