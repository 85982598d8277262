// Regions: what is parsed, and what is refused with which line.
#include "common/course/regions.hpp"

#include "tests/catch.hpp"

using namespace fa::course;

namespace {
std::string error_of(const std::string& text) {
  try {
    parse_regions(text, "file.cpp");
  } catch (const MarkerError& error) {
    return error.what();
  }
  return "";
}
}  // namespace

TEST_CASE("A region has a name, a caption, its lines and where they stand") {
  const auto regions = parse_regions(
      "int x;\n"
      "  //# region first  what it is for\n"
      "  int y;\n"
      "  //# endregion\n"
      "//# region second\n"
      "//# endregion\n",
      "file.cpp");
  REQUIRE(regions.size() == 2);
  CHECK(regions[0].name == "first");
  CHECK(regions[0].caption == "what it is for");
  CHECK(regions[0].lines == std::vector<std::string>{"  int y;"});
  CHECK(regions[0].first_line == 3);
  CHECK(regions[0].last_line == 3);
  CHECK(regions[1].caption.empty());
  CHECK(regions[1].lines.empty());
  CHECK(regions[1].last_line == regions[1].first_line - 1);
}

TEST_CASE("A region inside another is part of its text, and not of what is its own") {
  const std::string text =
      "//# region pv\na\n//# region exp  p\nb\n//# endregion\nc\n//# endregion\nd\n";
  const auto regions = parse_regions(text, "file.cpp");
  REQUIRE(regions.size() == 2);
  CHECK(regions[0].lines == std::vector<std::string>{"a", "b", "c"});
  CHECK(regions[0].own == std::vector<std::string>{"a", "c"});
  CHECK(regions[0].inside.empty());
  CHECK(regions[1].own == std::vector<std::string>{"b"});
  CHECK(regions[1].inside == "pv");
  CHECK(lines_between_regions(text) == std::vector<std::string>{"d"});
}

TEST_CASE("Exercise markers inside a region are passed over") {
  const std::string text =
      "//# region rescale\n"
      "//# exercise 2.1 points=4 lines=3 \"What moves?\"\n"
      "l *= alpha;\n"
      "//# skeleton\n"
      "//| FA_TODO(\"2.1\");\n"
      "//# end\n"
      "//# endregion\n";
  CHECK(parse_regions(text, "file.cpp")[0].lines == std::vector<std::string>{"l *= alpha;"});
  CHECK(strip_markers(text) == "l *= alpha;\n");
  CHECK(lines_between_regions(text).empty());
}

TEST_CASE("Markers that don't fit together are named with file and line") {
  CHECK(error_of("//# region a\nx\n") == "file.cpp:1: region a has no endregion");
  CHECK(error_of("//# region a\n//# region b\n//# endregion\n") ==
        "file.cpp:1: region a has no endregion");
  CHECK(error_of("x\n//# endregion\n") == "file.cpp:2: endregion without a region");
  CHECK(error_of("//# region\n//# endregion\n") == "file.cpp:1: a region without a name");
  CHECK(error_of("//# region a\n//# endregion\n//# region a\n//# endregion\n") ==
        "file.cpp:3: region a is there already, in line 1");
  const auto regions = parse_regions("//# region a\n//# endregion\n", "file.cpp");
  CHECK_THROWS_WITH(find_region(regions, "b", "file.cpp"), "file.cpp: no region b; it has a");
}
