// ./learn tour | list | example | diff | notes | record | bench: everything but building and
// testing, which the script does itself.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "common/course/diff_text.hpp"
#include "common/course/example.hpp"
#include "common/course/fault.hpp"
#include "common/course/notes.hpp"
#include "common/course/record.hpp"
#include "common/course/regions.hpp"
#include "common/course/stages.hpp"
#include "common/course/subprocess.hpp"
#include "common/course/table.hpp"
#include "common/course/text.hpp"
#include "common/course/tour.hpp"
#include "common/harness/main.hpp"
#include "common/harness/suggest.hpp"

namespace {

using namespace fa;
using namespace fa::course;

int list() {
  Table table{{"stage", "", "device", "source"}, {}, {false, true, true, true}};
  const auto add = [&](const std::string& label, const CourseStage& stage) {
    table.rows.push_back({label, stage.title, stage.device_here(), stage.source_path()});
  };
  for (const CourseStage& stage : stages()) {
    add(std::to_string(stage.number), stage);  // of stage 5 the default step
    if (stage.step.empty()) continue;
    for (const CourseStage& step : steps()) add("  " + step.label(), step);
  }
  fmt::print("{}", table.text());
  return kRight;
}

int example(int number) {
  const WorkedExample example = worked_example(number);
  fmt::print("{}", example.text);
  if (example.failure.empty()) return kRight;
  fmt::print(stderr, "{}", example.failure);
  return kMismatch;
}

/// Goes through all pages, also behind one that can't be generated: one call names all there is.
int check_notes(const std::filesystem::path& root, bool fill) {
  std::size_t stale = 0, filled = 0, broken = 0, waiting = 0;
  for (const std::filesystem::path& page : pages(root)) {
    FilledPage result;
    try {
      result = fill_page(root, page.string(), read_text(root / page));
    } catch (const MarkerError& error) {
      fmt::print(stderr, "{}\n", error.what());
      ++broken;
      continue;
    }
    for (const std::string& line : result.waiting) fmt::print(stderr, "{}\n", line);
    waiting += result.waiting.size();
    if (result.stale.empty()) continue;
    if (fill) {
      write_text(root / page, result.text);
      fmt::print("{}: filled {}\n", page.string(), result.stale.size());
      filled += result.stale.size();
    } else {
      for (const std::string& line : result.stale) fmt::print(stderr, "{}\n", line);
      stale += result.stale.size();
    }
  }
  if (stale > 0) fmt::print(stderr, "stale: {}. ./learn notes --fill writes them anew\n", stale);
  if (waiting > 0) fmt::print(stderr, "waiting for records: {}\n", waiting);
  if (stale + filled + broken + waiting == 0) fmt::print("All pages are current.\n");
  return stale + broken + waiting == 0 ? kRight : kMismatch;
}

int run(int argc, char** argv) {
  CLI::App app("The course: its stages side by side.", "./learn");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "the flags of every command");
  std::string root = FA_SOURCE_DIR, build = FA_BUILD_DIR;
  app.add_option("--root", root, "the repository")
      ->envname("FA_ROOT")
      ->capture_default_str()
      ->group("");
  app.add_option("--build", build, "the build folder")
      ->envname("FA_BUILD")
      ->capture_default_str()
      ->group("");
  int exit_code = kRight;

  TourOptions tour;
  CLI::App* tour_command =
      app.add_subcommand("tour", "run every stage on a real model's Q, K and V, and compare");
  tour_command->add_option("--input", tour.input, "another .safetensors file with q, k and v")
      ->type_name("FILE");
  tour_command->add_flag(
      "--json", tour.json, "print the facts as one JSON object, without pictures");
  tour_command->add_flag("!--no-pictures", tour.pictures, "leave the pictures out");
  tour_command->callback([&] { exit_code = run_tour({root, build}, tour); });

  app.add_subcommand("list", "the stages")->callback([&] { exit_code = list(); });

  int stage = 0;
  CLI::App* example_command =
      app.add_subcommand("example", "the worked example, as a stage computes it");
  example_command->add_option("stage", stage, "a number")->required();
  example_command->callback([&] { exit_code = example(stage); });

  std::string planted;
  CLI::App* fault_command =
      app.add_subcommand("fault", "a kernel with a planted mistake, and what the emulator says");
  fault_command->add_option("name", planted, fmt::format("{}", fmt::join(fault_names(), ", ")))
      ->required();
  fault_command->callback([&] { fmt::print("{}", fault_text(planted)); });

  std::string before, after;
  bool plain = false;
  CLI::App* diff_command =
      app.add_subcommand("diff", "what changed from one stage to another, by region");
  diff_command->add_option("before", before, "a stage's number, or a step as 5.5a")->required();
  diff_command->add_option("after", after, "another's")->required();
  diff_command->add_flag("--no-colour,--no-color", plain, "no colour on a terminal either");
  diff_command->callback([&] {
    const bool colour = !plain && isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
    fmt::print("{}", diff_text(root, before, after, colour));
  });

  bool check = false, fill = false;
  CLI::App* notes_command =
      app.add_subcommand("notes", "the filled parts of the pages: check or fill them");
  notes_command->add_flag(
      "--check", check, "name every part that is stale (the default); exit 1 if there is one");
  notes_command->add_flag("--fill", fill, "write every part anew")->excludes("--check");
  notes_command->callback([&] { exit_code = check_notes(root, fill); });

  RecordOptions record;
  CLI::App* record_command =
      app.add_subcommand("record", "measure the stages and keep the numbers for the notes");
  record_command->add_option("name", record.name, "written to notes/results/NAME.json")->required();
  record_command->prefix_command();
  record_command->footer(
      "With a command behind the name, what that command prints is kept instead:\n"
      "./learn record stage3_run stage3 --input common/data/smollm2_layer02.safetensors");
  record_command->callback([&] {
    record.words = record_command->remaining();
    exit_code = run_record({root, build}, record);
  });

  CLI::App* bench_command =
      app.add_subcommand("bench", "the benchmarks; flags are Google Benchmark's");
  bench_command->prefix_command();
  bench_command->callback([&] {
    std::vector<std::string> words = {build + "/bench_attention"};
    for (const std::string& word : bench_command->remaining()) words.push_back(word);
    exit_code = run_program_here(words);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::vector<std::string> commands;
    for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
    const std::string word = argc > 1 ? argv[1] : "-";
    if (word[0] != '-' && std::find(commands.begin(), commands.end(), word) == commands.end()) {
      const std::string near = nearest(word, commands);
      throw Refused(fmt::format("no command '{}': {}",
                                word,
                                near.empty()
                                    ? fmt::format("must be one of {}", fmt::join(commands, ", "))
                                    : fmt::format("did you mean {}?", near)));
    }
    throw Refused(std::string(error.what()) + " (./learn --help-all)");
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Refused& error) {
    fmt::print(stderr, "learn: {}\n", error.what());
    return kRefused;
  } catch (const MarkerError& error) {
    fmt::print(stderr, "learn: {}\n", error.what());
    return kMismatch;
  } catch (const std::exception& error) {
    fmt::print(stderr, "learn: {}\n", error.what());
    return kRefused;
  }
}
