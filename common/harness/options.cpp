#include "common/harness/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <vector>

#include "common/harness/inputs.hpp"
#include "common/harness/suggest.hpp"

namespace fa {

namespace {

constexpr Index kMaxSize = Index{1} << 48;  // as in the contract
constexpr Index kMaxTile = Index{1} << 20;
constexpr int kMaxThreads = 1024;
constexpr int kMaxRepeats = 100'000;

/// What attention can have elsewhere and doesn't have here.
const std::vector<std::string> kOutside = {
    "--dropout", "--bias", "--alibi", "--softcap", "--backward"};

std::string allowed_range(Index least, Index most) {
  return fmt::format(
      "an integer from {} to {}", least, most == kMaxSize ? "2^48" : std::to_string(most));
}

std::optional<Index> parse_integer(const std::string& text, Index least, Index most) {
  Index value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) return std::nullopt;
  return value;
}

/// The options of one command line: CLI11 finds flags and values, the values are read here, so that
/// every refusal names the flag, the value and what is allowed.
class Parser {
 public:
  explicit Parser(const std::vector<Stage>& steps)
      : steps_(steps),
        stage_(steps.back()),
        app_(fmt::format("Stage {}: {}. Runs on Q, K, V from files or made from a "
                         "seed, and checks itself.",
                         stage_.number,
                         stage_.title),
             stage_.name) {
    app_.allow_extras();  // refused below, with a better message
    app_.get_formatter()->column_width(28);
    app_.footer(
        "Exit codes: 0 right, 1 wrong, 2 bad usage or input, 77 this device can't run it.\n"
        "--window and --causal are aligned bottom-right: the last query stands at the last key.");
    declare_input();
    declare_problem();
    declare_run();
    declare_report();
  }

  Options parse(int argc, const char* const* argv) {
    refuse_flags_with_values(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      options_.answer = app_.help();
      return options_;
    } catch (const CLI::ArgumentMismatch& error) {
      refuse_count(error.what());
    } catch (const CLI::ParseError& error) {
      throw Refused(error.what());
    }
    const std::vector<std::string> extras = app_.remaining();
    if (!extras.empty()) refuse_extra(extras.front());
    if (list_patterns_) {
      for (const Pattern& pattern : patterns())
        options_.answer += fmt::format("{:12} {}\n", pattern.name, pattern.description);
      return options_;
    }
    check_combinations();
    read_input();
    read_problem();
    read_run();
    read_report();
    return options_;
  }

 private:
  CLI::Option* value(const std::string& name,
                     const std::string& type,
                     const std::string& description,
                     const std::string& group) {
    return app_.add_option(name, texts_[name], description)->type_name(type)->group(group);
  }

  void declare_input() {
    const char* files = "Input from files";
    value("--input", "FILE", "a .safetensors file with tensors q, k and v", files);
    value("--q", "FILE", "Q, a .npy file; with --k and --v", files);
    value("--k", "FILE", "K", files);
    value("--v", "FILE", "V", files);
    const char* made = "Input made from a seed";
    value("-B", "INT", "batch items (1)", made);
    value("-H", "INT", "query heads (1)", made);
    value("--kv-heads", "INT", "KV heads, a divisor of -H (as many as -H)", made);
    value("-N", "INT", "queries (1024)", made);
    value("--kv-len", "INT", "keys (as many as -N)", made);
    value("-d", "INT", "head dimension (64)", made);
    value("--seed", "INT", "of the random numbers (1)", made);
    value("--pattern", "NAME", "how Q, K and V are filled (normal)", made);
    app_.add_flag("--list-patterns", list_patterns_, "print the patterns and what each is good for")
        ->group(made);
  }

  void declare_problem() {
    const char* group = "Problem";
    value("--dtype",
          "TYPE",
          fmt::format("float32, float16 or bfloat16; files are converted ({})",
                      name_of(stage_.dtypes.front())),
          group);
    app_.add_flag("--causal", causal_, "hide the keys behind each query")->group(group);
    app_.add_flag("--no-causal", no_causal_, "hide none, whatever the file says")->group(group);
    value("--window", "L,R", "keys visible before and behind the query; -1: all", group);
    value("--scale", "X", "of the scores (1/sqrt(d))", group);
  }

  void declare_run() {
    const char* group = "Run";
    value("--br", "INT", "queries in a tile (stages with tiles)", group);
    value("--bc", "INT", "keys in a tile (stages with tiles)", group);
    value("--threads", "INT", "(all cores)", group);
    value("--repeats", "INT", "timed runs (as many as fit in two seconds)", group);
    value("--device", "NAME", "auto, gpu or simt, the emulator (CUDA stages; auto)", group);
    if (!has_steps()) return;
    std::string labels;
    for (const Stage& step : steps_) labels += (labels.empty() ? "" : ", ") + step.step;
    value(
        "--step",
        "LABEL",
        fmt::format(
            "{} ({}); a number alone is the last step of that number", labels, steps_.back().step),
        group);
    app_.add_flag("--ladder", options_.ladder, "run all steps on one input, and compare them")
        ->group(group);
  }

  void declare_report() {
    const char* group = "Report";
    value("--output", "FILE", "write tensors o and lse to a .safetensors file", group);
    app_.add_flag("--json", options_.json, "print the facts as one JSON object")->group(group);
  }

  /// CLI11's words for a value too few or too many begin with the flag and a colon.
  [[noreturn]] void refuse_count(const std::string& words) const {
    const std::string flag = words.substr(0, words.find(':'));
    const CLI::Option* option = app_.get_option_no_throw(flag);
    if (option == nullptr) throw Refused(words);
    throw Refused(flag + (option->count() > 1 ? " is given more than once" : " needs a value"));
  }

  /// CLI11 would take "--json=7" for yes, and "--json=x" for an error of its own words.
  void refuse_flags_with_values(int argc, const char* const* argv) const {
    for (int a = 1; a < argc; ++a) {
      const std::string argument = argv[a];
      const std::size_t equals = argument.find('=');
      if (equals == std::string::npos) continue;
      const CLI::Option* option = app_.get_option_no_throw(argument.substr(0, equals));
      if (option != nullptr && option->get_expected_min() == 0)
        throw Refused(argument + ": the flag takes no value");
    }
  }

  [[noreturn]] void refuse_extra(const std::string& argument) const {
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.size() < 2 || flag[0] != '-')
      throw Refused(fmt::format("unexpected argument '{}': --help lists the flags", argument));
    if (std::find(kOutside.begin(), kOutside.end(), flag) != kOutside.end())
      throw Refused(fmt::format(
          "{}: outside this course: notes/00_start_here.md says where it would go", flag));
    for (const char* name : {"--step", "--ladder"})
      if (flag == name)
        throw Refused(fmt::format("{}: stage {} has no steps", argument, stage_.number));
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
    const std::string meant = nearest(flag, names);
    throw Refused(meant.empty() ? fmt::format("unknown flag {}: --help lists the flags", flag)
                                : fmt::format("unknown flag {}: did you mean {}?", flag, meant));
  }

  bool given(const std::string& name) const { return app_.get_option(name)->count() > 0; }
  const std::string& text(const std::string& name) const { return texts_.at(name); }

  /// "-N 1e9", as the user typed it.
  std::string typed(const std::string& name) const {
    return fmt::format("{} {}", name, text(name).empty() ? "''" : text(name));
  }

  Index integer(const std::string& name, Index least, Index most, Index otherwise) const {
    if (!given(name)) return otherwise;
    const std::optional<Index> number = parse_integer(text(name), least, most);
    if (!number)
      throw Refused(fmt::format("{}: must be {}", typed(name), allowed_range(least, most)));
    return *number;
  }

  void check_combinations() const {
    const bool arrays = given("--q") || given("--k") || given("--v");
    if (arrays && !(given("--q") && given("--k") && given("--v")))
      throw Refused("--q, --k and --v go together: all three, or none of them");
    if (arrays && given("--input")) throw Refused("--input and --q: only one of them can be read");
    if (arrays || given("--input"))
      for (const char* name : {"-B", "-H", "--kv-heads", "-N", "--kv-len", "-d"})
        if (given(name)) throw Refused(typed(name) + ": the files state the sizes already");
    if (arrays || given("--input"))
      for (const char* name : {"--seed", "--pattern"})
        if (given(name))
          throw Refused(typed(name) + ": is for made input, and the input comes from files");
    if (given("--causal") && given("--no-causal"))
      throw Refused("--causal and --no-causal: only one of them can hold");
    for (const char* name : {"--br", "--bc"})
      if (given(name) && !stage_.tiled)
        throw Refused(fmt::format(stage_.on_device ? "{}: stage {}'s tiles are part of its kernel"
                                                   : "{}: stage {} has no tiles",
                                  typed(name),
                                  stage_.number));
    if (options_.ladder)
      for (const char* name : {"--step", "--output"})
        if (given(name)) throw Refused(typed(name) + ": --ladder runs all steps");
  }

  bool has_steps() const { return !stage_.step.empty(); }

  /// Is this label the number and letters behind it?
  static bool has_number(const std::string& label, const std::string& number) {
    return !number.empty() && label.compare(0, number.size(), number) == 0 &&
           label.find_first_of("0123456789", number.size()) == std::string::npos;
  }

  /// The place of the step that was asked for; of a number without a letter, its last.
  std::optional<std::size_t> step() const {
    if (!has_steps() || !given("--step")) return std::nullopt;
    std::vector<std::string> labels;
    for (const Stage& step : steps_) labels.push_back(step.step);
    auto found = std::find(labels.begin(), labels.end(), text("--step"));
    if (found == labels.end() && parse_integer(text("--step"), 0, kMaxSize))
      for (auto label = labels.begin(); label != labels.end(); ++label)
        if (has_number(*label, text("--step"))) found = label;
    if (found == labels.end())
      throw Refused(fmt::format("{}: must be one of {}", typed("--step"), fmt::join(labels, ", ")));
    return static_cast<std::size_t>(found - labels.begin());
  }

  Device device() const {
    if (!given("--device")) return Device::automatic;
    if (!stage_.on_device)
      throw Refused(
          fmt::format("{}: stage {} runs on the CPU only", typed("--device"), stage_.number));
    if (text("--device") == "auto") return Device::automatic;
    if (text("--device") == "gpu") return Device::gpu;
    if (text("--device") == "simt") return Device::simt;
    throw Refused(fmt::format("{}: must be auto, gpu or simt", typed("--device")));
  }

  std::string file_name(const std::string& name) const {
    if (given(name) && text(name).empty()) throw Refused(name + ": the file's name is empty");
    return text(name);
  }

  void read_input() {
    Options& o = options_;
    o.input = file_name("--input");
    if (std::filesystem::path(o.input).extension() == ".npy")
      throw Refused(typed("--input") +
                    ": a .npy file holds one array: --q, --k and --v take three");
    o.q = file_name("--q");
    o.k = file_name("--k");
    o.v = file_name("--v");
    o.B = integer("-B", 1, kMaxSize, o.B);
    o.Hq = integer("-H", 1, kMaxSize, o.Hq);
    o.Hkv = integer("--kv-heads", 0, kMaxSize, o.Hq);
    if (o.Hkv == 0 || o.Hq % o.Hkv != 0)
      throw Refused(fmt::format(
          "--kv-heads {}: -H {} must be a multiple of it (every KV head serves equally many query "
          "heads)",
          o.Hkv,
          o.Hq));
    o.Nq = integer("-N", 0, kMaxSize, o.Nq);
    o.Nkv = integer("--kv-len", 0, kMaxSize, o.Nq);
    o.d = integer("-d", 1, kMaxSize, o.d);
    o.seed = static_cast<std::uint64_t>(
        integer("--seed", 0, std::numeric_limits<Index>::max(), static_cast<Index>(o.seed)));
    if (given("--pattern")) {
      o.pattern = text("--pattern");
      std::vector<std::string> names;
      for (const Pattern& pattern : patterns()) names.push_back(pattern.name);
      if (std::find(names.begin(), names.end(), o.pattern) == names.end())
        throw Refused(
            fmt::format("--pattern {}: must be one of {}", o.pattern, fmt::join(names, ", ")));
    }
  }

  void read_problem() {
    if (given("--dtype")) {
      for (const DType known : {DType::float32, DType::float16, DType::bfloat16})
        if (text("--dtype") == name_of(known)) options_.dtype = known;
      if (!options_.dtype)
        throw Refused(
            fmt::format("--dtype {}: must be float32, float16 or bfloat16", text("--dtype")));
    }
    if (given("--causal")) options_.causal = causal_;
    if (no_causal_) options_.causal = false;
    if (given("--window")) options_.window = window(text("--window"));
    if (given("--scale")) options_.scale = scale(text("--scale"));
  }

  static Window window(const std::string& value) {
    if (const std::optional<Window> window = parse_window(value)) return *window;
    throw Refused(fmt::format(
        "--window {}: must be L,R, two integers from 0 to 2^48, or -1 for no bound", value));
  }

  static float scale(const std::string& value) {
    char* end = nullptr;
    const float number = std::strtof(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !std::isfinite(number))
      throw Refused(fmt::format("--scale {}: must be a finite number in float32's range", value));
    return number;
  }

  void read_run() {
    Options& o = options_;
    o.tile.Br = integer("--br", 1, kMaxTile, 0);
    o.tile.Bc = integer("--bc", 1, kMaxTile, 0);
    o.threads = static_cast<int>(integer("--threads", 1, kMaxThreads, 0));
    o.repeats = static_cast<int>(integer("--repeats", 1, kMaxRepeats, 0));
    o.device = device();
    o.step = step();
  }

  void read_report() {
    options_.output = file_name("--output");
    if (given("--output") && std::filesystem::path(options_.output).extension() != ".safetensors")
      throw Refused(fmt::format("--output {}: the name must end in .safetensors", options_.output));
  }

  const std::vector<Stage>& steps_;
  const Stage& stage_;  // the last of them: its number, its types, and whether it has tiles
  CLI::App app_;
  std::map<std::string, std::string> texts_;  // values as they were typed, by flag
  bool causal_ = false;
  bool no_causal_ = false;
  bool list_patterns_ = false;
  Options options_;
};

}  // namespace

std::optional<Window> parse_window(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return std::nullopt;
  const auto left = parse_integer(text.substr(0, comma), -1, kMaxSize);
  const auto right = parse_integer(text.substr(comma + 1), -1, kMaxSize);
  if (!left || !right) return std::nullopt;
  return Window{*left, *right};
}

Options parse_options(int argc, const char* const* argv, const std::vector<Stage>& steps) {
  return Parser(steps).parse(argc, argv);
}

}  // namespace fa
