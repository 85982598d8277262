#include "common/course/tour.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/course/pictures.hpp"
#include "common/course/stage_run.hpp"
#include "common/course/table.hpp"
#include "common/course/text.hpp"
#include "common/harness/main.hpp"
#include "common/harness/report.hpp"
#include "common/harness/units.hpp"
#include "common/io/safetensors.hpp"

namespace fa::course {

namespace {

constexpr int kWidest = 100;

/// The terminal's width, at most kWidest; kWidest where there is no terminal.
int page_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 40)
    return std::min<int>(size.ws_col, kWidest);
  return kWidest;
}

/// "SmolLM2-135M-Instruct, layer 2 of 30, …" from the file's metadata, as far as it has any.
std::string origin(const std::filesystem::path& input) {
  const auto metadata = read_safetensors(input, {"q"}).metadata;
  const auto get = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (get("model").empty()) return input.filename().string();
  std::string text = get("model");
  if (!get("layer").empty()) text += ", layer " + get("layer");
  if (!get("text").empty()) text += ", reading: " + get("text");
  return text;
}

/// A number that JSON may hold as a string ("inf").
double number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  return value == "inf" ? INFINITY : value == "-inf" ? -INFINITY : NAN;
}

/// "1.2e-07 (3 %)": the largest error, and the largest share of its tolerance that an element uses.
std::string error_text(const nlohmann::json& comparison) {
  return fmt::format("{:.1e} ({:.0f} %)",
                     number(comparison.at("max_error")),
                     100 * number(comparison.at("max_error_over_tolerance")));
}

std::vector<std::string> row(const CourseStage& stage, const StageRun& run) {
  std::vector<std::string> cells = {fmt::format("{} {}", stage.number, stage.title)};
  const nlohmann::json& f = run.facts;
  if (!f.is_object()) {
    cells.push_back(stage.device_here());
    cells.resize(8);
    cells[2] = run.exit_code == kCannotRun ? "can't run here" : "refused";
    return cells;
  }
  const std::string time = seconds_text(number(f.at("time_s").at("median")));
  cells.push_back(short_device(f.at("device").get<std::string>()));
  cells.push_back(f.at("emulated").get<bool>() ? "(" + time + ")" : time);
  cells.push_back(
      f.at("gflop_per_s").is_null() ? "" : fmt::format("{:.1f}", number(f.at("gflop_per_s"))));
  cells.push_back(bytes_text(number(f.at("extra_memory_bytes"))));
  cells.push_back(bytes_text(number(f.at("traffic_bytes"))));
  cells.push_back(error_text(f.at("oracle").at("O")));
  cells.push_back(f.at("previous").is_null() ? "" : error_text(f.at("previous").at("difference")));
  if (!f.at("right").get<bool>()) cells[6] += " WRONG";
  return cells;
}

/// Runs stage 5 on the input, all steps of it. The stage's own facts are its last step's.
struct LadderRun {
  StageRun stage;
  std::vector<nlohmann::json> steps;  // empty where the program refused
};

LadderRun run_ladder(const Places& places,
                     const CourseStage& stage,
                     const std::filesystem::path& input) {
  LadderRun run{run_stage(places, stage, {"--input", input.string(), "--ladder"}), {}};
  if (!run.stage.facts.is_object()) return run;
  for (const nlohmann::json& step : run.stage.facts.at("steps")) run.steps.push_back(step);
  run.stage.facts = run.steps.back();
  return run;
}

std::vector<std::string> step_row(const nlohmann::json& f) {
  const nlohmann::json& stage = f.at("stage");
  std::vector<std::string> cells = {stage.at("step").get<std::string>(),
                                    stage.at("adds").get<std::string>()};
  if (f.at("emulated").get<bool>()) {
    for (const CountColumn& column : count_columns()) {
      std::uint64_t sum = 0;
      for (const std::string& name : column.names)
        sum += f.at("counts").value(name, std::uint64_t{0});
      cells.push_back(short_count(sum));
    }
  } else {
    const nlohmann::json& previous = f.at("previous");
    const nlohmann::json gain = previous.is_null() ? nullptr : previous.at("speed_up");
    cells.push_back(seconds_text(number(f.at("time_s").at("median"))));
    cells.push_back(fmt::format("{:.3g}", number(f.at("gflop_per_s")) / 1e3));
    cells.push_back(gain.is_null() ? "" : fmt::format("x{:.2f}", number(gain)));
  }
  cells.push_back(fmt::format("{:.1e}{}",
                              number(f.at("oracle").at("O").at("max_error")),
                              f.at("right").get<bool>() ? "" : " WRONG"));
  return cells;
}

void print_steps(const std::vector<nlohmann::json>& steps, int width) {
  if (steps.empty()) return;
  const bool emulated = steps.front().at("emulated").get<bool>();
  Table table{{"step", "what it adds"}, {}, {true, true}};
  if (emulated)
    for (const CountColumn& column : count_columns()) table.heads.emplace_back(column.head);
  else
    table.heads.insert(table.heads.end(), {"time", "TFLOP/s", "gain"});
  table.heads.emplace_back("error");
  table.left.resize(table.heads.size(), false);
  for (const nlohmann::json& step : steps) table.rows.push_back(step_row(step));
  fmt::print("\n{}\n", table.text(2));
  const std::string legend =
      emulated ? "Its steps, on the same input. Counted by the emulator: 32-byte sectors of global "
                 "memory; cycles of the shared memory's banks, and how many of them conflicts "
                 "added; ldmatrix and mma by warp; barriers by block."
               : "Its steps, on the same input, timed in turn. gain: how many times as fast as the "
                 "line before, the first line as stage 4.";
  for (const std::string& line : wrapped(legend, width - 2)) fmt::print("  {}\n", line);
  for (const nlohmann::json& step : steps)
    if (!step.at("right").get<bool>())
      fmt::print("  WRONG: step {}: {}\n",
                 step.at("stage").at("step").get<std::string>(),
                 step.value("failure", "no reason given"));
}

/// The first paragraph of the stage's README: what to look at. Nothing where there is none yet.
std::string paragraph(const std::filesystem::path& readme) {
  if (!std::filesystem::exists(readme)) return "";
  std::string text;
  for (const std::string& line : lines_of(read_text(readme))) {
    if (!text.empty() && trimmed(line).empty()) break;
    if (!line.empty() && line[0] != '#') text += line + " ";
  }
  for (std::size_t at; (at = text.find("<!--")) != std::string::npos;) {
    const std::size_t end = text.find("-->", at);
    text.erase(at, end == std::string::npos ? end : end + 3 - at);
  }
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  return text;
}

void print_problem(const std::filesystem::path& input, const nlohmann::json& facts, int width) {
  for (const std::string& line : wrapped(origin(input), width)) fmt::print("{}\n", line);
  if (!facts.is_object()) return;
  const nlohmann::json& p = facts.at("problem");
  const nlohmann::json& asked = facts.at("oracle").at("queries");
  const std::string shape = fmt::format(
      "{} query heads on {} key/value heads, N = {}, d = {}, {}{}; {} of {} rows a head checked.",
      p.at("Hq").get<int>(),
      p.at("Hkv").get<int>(),
      count_text(p.at("Nkv").get<Index>()),
      p.at("d").get<int>(),
      p.at("dtype").get<std::string>(),
      p.at("causal").get<bool>() ? ", causal" : "",
      count_text(asked.at("compared").get<Index>()),
      count_text(asked.at("of").get<Index>()));
  for (const std::string& line : wrapped(shape, width)) fmt::print("{}\n", line);
  fmt::print("\n");
}

void print_table(const std::vector<StageRun>& runs, int width) {
  Table table{{"stage",
               "device",
               "time",
               "GFLOP/s",
               "extra memory",
               "traffic",
               "error (share)",
               "to last (share)"},
              {},
              {true, true, false, false, false, false, false, false}};
  for (std::size_t s = 0; s < runs.size(); ++s) table.rows.push_back(row(stages()[s], runs[s]));
  fmt::print("{}\n", table.text());
  std::string legend =
      "time: median, all cores. GFLOP/s: a multiply and an add for each component of each visible "
      "pair, in QKᵀ and again in PV. extra memory: the most that was allocated at once, counted. "
      "traffic: bytes of Q, K, V, O, S, P that the loops ask for, by formula. error: the largest "
      "against a float64 oracle; to last: against the stage or step before; in brackets how much "
      "of its "
      "tolerance the worst element uses (with 16-bit output, O's own rounding alone uses most).";
  const bool emulated = std::any_of(runs.begin(), runs.end(), [](const StageRun& run) {
    return run.facts.is_object() && run.facts.at("emulated").get<bool>();
  });
  if (emulated)
    legend +=
        " simt: the CUDA kernel, run by an emulator on the CPU. Its time, in brackets, is the "
        "emulator's, its traffic is counted.";
  for (const std::string& line : wrapped(legend, width)) fmt::print("{}\n", line);
}

}  // namespace

int run_tour(const Places& places, const TourOptions& options) {
  const std::filesystem::path input = options.input.empty()
                                          ? places.root / "common/data/smollm2_layer02.safetensors"
                                          : std::filesystem::path(options.input);
  const int width = page_width();

  std::vector<StageRun> runs;
  std::vector<nlohmann::json> steps;
  int exit_code = kRight;
  for (const CourseStage& stage : stages()) {
    if (stage.step.empty()) {
      runs.push_back(run_stage(places, stage, {"--input", input.string()}));
    } else {
      const LadderRun ladder = run_ladder(places, stage, input);
      runs.push_back(ladder.stage);
      steps = ladder.steps;
    }
    const int code = runs.back().exit_code;
    if (code == kRefused) return kRefused;  // the stage has said why
    if (code != kRight && code != kCannotRun) exit_code = kMismatch;
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"input", input.string()}, {"right", exit_code == kRight}};
    for (const StageRun& run : runs) json["stages"].push_back(nlohmann::ordered_json(run.facts));
    json["steps"] = steps;
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return exit_code;
  }

  print_problem(input, runs.front().facts, width);
  print_table(runs, width);
  for (std::size_t s = 0; s < runs.size(); ++s) {
    const CourseStage& stage = stages()[s];
    fmt::print("\nStage {}, {}: {}\n", stage.number, stage.title, stage.source_path());
    for (const std::string& line :
         wrapped(paragraph(places.root / stage.folder / "README.md"), width - 2))
      fmt::print("  {}\n", line);
    if (!stage.step.empty() && !steps.empty())
      print_steps(steps, width);  // which says what is wrong, step by step
    else if (runs[s].exit_code == kMismatch && runs[s].facts.is_object())
      fmt::print("  WRONG: {}\n", runs[s].facts.value("failure", "no reason given"));
    else if (runs[s].exit_code != kRight && runs[s].exit_code != kCannotRun)
      fmt::print("  WRONG: the program ended with exit code {}\n", runs[s].exit_code);
  }
  if (options.pictures) {
    fmt::print("\nPictures\n");
    const Pictures pictures = draw_pictures(places);
    for (const std::string& picture : pictures.lines)
      for (const std::string& line : wrapped(picture, width - 2)) fmt::print("  {}\n", line);
    for (const std::string& line : wrapped(pictures.skipped, width - 2)) fmt::print("  {}\n", line);
  }
  fmt::print(
      "\nNext: ./learn diff 1 2, ./learn example 2, and the notes from notes/00_start_here.md "
      "on.\n");
  return exit_code;
}

}  // namespace fa::course
