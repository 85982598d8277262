// Every known mistake fails at least one probe, or is named by the emulator; the right stages fail
// none.
#include <fmt/format.h>

#include <cstring>
#include <set>

#include "common/simt/launch.hpp"
#include "mutants.hpp"
#include "tests/catch.hpp"
#include "tests/early_copies.hpp"
#include "tests/probes.hpp"

using namespace fa;

namespace {

/// Small tiles, so that the probes have several; CUDA stages in the emulator.
Variant variant_of(const Stage& stage) {
  return {stage.name,
          stage,
          stage.tiled ? Tile{16, 32} : Tile{},
          stage.on_device ? Device::simt : Device::automatic};
}

/// The kinds of fault that the emulator named in any of the probes.
std::string named_faults(const std::vector<Failure>& failures) {
  std::set<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(simt::Fault::mbarrier_wait); ++kind)
    for (const Failure& failure : failures) {
      const std::string name = simt::name_of(static_cast<simt::Fault>(kind));
      for (const char* after : {"\n", " ("})  // the end of a report's first line, or "(32 times)"
        if (failure.what.find(": " + name + after) != std::string::npos) names.insert(name);
    }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// What the probes find, until that is enough: something, and the emulator has named `fault`. In stage 5 also
/// with copies that arrive at once, where copies that arrive at their wait were not enough.
std::vector<Failure> probe(const Stage& stage, const std::string& fault) {
  const auto enough = [&](const std::vector<Failure>& failures) {
    return !failures.empty() && named_faults(failures) == fault;
  };
  const Variant variant = variant_of(stage);
  const DType dtype = stage.dtypes.front();
  std::vector<Failure> failures = run_probes(variant, dtype, enough);
  if (stage.number < 5 || enough(failures)) return failures;
  for (const Failure& failure : run_probes(with_early_copies(variant), dtype))
    failures.push_back(failure);
  return failures;
}

/// "5a" of a mutant of step 5a: its title is "step 5a, …".
std::string step_of(const Stage& stage) { return stage.title.substr(5, stage.title.find(',') - 5); }

bool is_right(const Mutant& mutant) { return std::strncmp(mutant.cause, "none", 4) == 0; }

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
    for (const Failure& failure : probe(stage, "in both modes"))
      FAIL_CHECK(stage.name << ", " << failure.probe << ": " << failure.what);
  }
  CHECK(copies == 10);  // six of them of stage 5's steps
}

namespace {

/// The dozens of mutants are several tests, so that they run side by side.
enum class Of { cpu_stages, stage4, steps_to_4, steps_to_5i, steps_to_6c, other_steps };

Of group_of(const Stage& stage) {
  if (!stage.on_device) return Of::cpu_stages;
  if (stage.number < 5) return Of::stage4;
  const std::string step = step_of(stage);
  return step < "5"    ? Of::steps_to_4
         : step < "5j" ? Of::steps_to_5i
         : step < "6d" ? Of::steps_to_6c
                       : Of::other_steps;
}

void catch_every_mistake(Of group) {
  int count = 0;
  for (const Mutant& mutant : kMutants) {
    if (is_right(mutant)) continue;
    const Stage stage = mutant.stage();
    if (group_of(stage) != group) continue;
    ++count;
    const std::vector<Failure> failures = probe(stage, mutant.fault);
    const std::string faults = named_faults(failures);
    fmt::print("{:<16}{}{}{}{}\n",
               failures.empty() ? "not caught" : failures.front().probe,
               stage.number < 5 ? fmt::format("stage {}: ", stage.number) : "",
               stage.number < 5 ? mutant.cause : stage.title,
               faults.empty() ? "" : "; the emulator: ",
               faults);
    INFO("stage " << stage.number << ", " << stage.title);
    CHECK_FALSE(failures.empty());
    INFO((failures.empty() ? "" : failures.front().what));
    CHECK(faults == mutant.fault);
  }
  CHECK(count > 0);
}

}  // namespace

TEST_CASE("Every known mistake is caught by at least one probe") {
  catch_every_mistake(Of::cpu_stages);
}

// In a kernel it must also be called by its name where it is a mistake of memory.
TEST_CASE("Every known mistake in stage 4's kernel is caught") { catch_every_mistake(Of::stage4); }
TEST_CASE("Every known mistake in steps 1 to 4 is caught") { catch_every_mistake(Of::steps_to_4); }
TEST_CASE("Every known mistake in steps 5a to 5i is caught") {
  catch_every_mistake(Of::steps_to_5i);
}
TEST_CASE("Every known mistake in steps 5j to 6c is caught") {
  catch_every_mistake(Of::steps_to_6c);
}
TEST_CASE("Every known mistake in steps 6d to 6f is caught") {
  catch_every_mistake(Of::other_steps);
}
