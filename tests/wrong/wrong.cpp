// Every known mistake fails at least one probe, and the right stages fail none.
#include <fmt/format.h>

#include <cstring>

#include "mutants.hpp"
#include "tests/catch.hpp"
#include "tests/probes.hpp"

using namespace fa;

namespace {

/// Small tiles, so that the probes have several.
Tile tile_of(const Stage& stage) { return stage.tiled ? Tile{16, 32} : Tile{}; }

bool is_right(const Mutant& mutant) { return std::strncmp(mutant.cause, "none", 4) == 0; }

std::string failed(const std::vector<Failure>& failures, const std::string& probe) {
  for (const Failure& failure : failures)
    if (failure.probe == probe) return failure.what;
  return "";
}

}  // namespace

TEST_CASE("What each mutant replaces occurs exactly once in the source") {
  INFO("no longer true of\n" << kStale);
  CHECK(std::strlen(kStale) == 0);
}

TEST_CASE("Copies of the stages without a mistake pass every probe") {
  int copies = 0;
  for (const Mutant& mutant : kMutants) {
    if (!is_right(mutant)) continue;
    ++copies;
    const Stage stage = mutant.stage();
    for (const Failure& failure : run_probes(stage, tile_of(stage)))
      FAIL_CHECK(stage.name << ", " << failure.probe << ": " << failure.what);
  }
  CHECK(copies == 3);
}

TEST_CASE("Every known mistake is caught by at least one probe") {
  fmt::print("Caught by: {}\n", fmt::join(probe_names(), ", "));
  for (const Mutant& mutant : kMutants) {
    if (is_right(mutant)) continue;
    const Stage stage = mutant.stage();
    const std::vector<Failure> failures = run_probes(stage, tile_of(stage));
    std::string row;
    for (const std::string& probe : probe_names())
      row += failed(failures, probe).empty() ? " ." : " x";
    fmt::print("{}  stage {}: {}\n", row, stage.number, mutant.cause);
    INFO("stage " << stage.number << ", " << mutant.cause);
    CHECK_FALSE(failures.empty());
  }
}
