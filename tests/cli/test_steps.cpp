// Stage 5's steps: one of them, or all of them on one input. And the types and shapes that stage 5
// doesn't take.
#include <algorithm>
#include <cmath>

#include "common/harness/inputs.hpp"
#include "common/io/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

namespace {

/// Which all steps take: d = 64.
std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "-H", "2", "--kv-heads", "1", "-N", "50", "--kv-len", "70", "-d", "64", "--device", "simt"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The refusal in one line, which must have these parts.
void check_refused(const std::string& program,
                   const std::vector<std::string>& arguments,
                   const std::vector<std::string>& parts) {
  const Ended ended = run(program, arguments);
  INFO(ended.err << ended.out);
  CHECK(ended.exit_code == 2);
  CHECK(ended.out.empty());
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(ended.err.find(part) != std::string::npos);
  }
}

nlohmann::json facts(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--json", "--repeats", "1"});
  const Ended ended = run(kStage5, all);
  INFO(ended.err);
  CHECK(ended.exit_code == 0);
  return ended.json();
}

/// The labels of the steps, from the refusal that names them.
std::vector<std::string> labels() {
  const std::string words = run(kStage5, {"--step", "?"}).err;
  const std::string from = "must be one of ";
  std::string list = words.substr(words.find(from) + from.size());
  std::vector<std::string> result(1);
  for (const char c : list)
    if (c == ',')
      result.emplace_back();
    else if (c != ' ' && c != '\n')
      result.back() += c;
  return result;
}

}  // namespace

TEST_CASE("each step runs by its label and agrees with the one before", "[cli]") {
  std::string last;
  for (const std::string& label : labels()) {
    const auto f = facts(small({"--step", label, "--causal"}));
    INFO("step " << label);
    CHECK(f.at("stage").at("number") == 5);
    CHECK(f.at("stage").at("name") == "stage5_mma_pipeline");
    CHECK(f.at("stage").at("step") == label);
    CHECK(f.at("right") == true);
    CHECK(f.at("previous").at("right") == true);
    CHECK(f.at("previous").at("number") == (last.empty() ? 4 : 5));
    CHECK(f.at("previous").value("step", "") == last);
    CHECK(f.at("counts").at("mma") > 0);
    CHECK(f.at("notes").empty());
    last = label;
  }
  CHECK(facts(small({})).at("stage").at("step") == last);  // the default
}

TEST_CASE("a number alone is the last step of that number", "[cli]") {
  const std::vector<std::string> all = labels();
  for (const std::string number : {"4", "5", "6"}) {
    std::string last;
    for (const std::string& label : all)
      if (label[0] == number[0]) last = label;
    INFO("--step " << number);
    REQUIRE(!last.empty());
    const auto f = facts({"-N", "40", "-d", "64", "--step", number, "--device", "simt"});
    CHECK(f.at("stage").at("step") == last);
    CHECK(f.at("right") == true);
  }
  CHECK(run(kStage5, {"--help"}).out.find("a number alone") != std::string::npos);
  for (const char* number : {"7", "05", "-5", "5 "})
    check_refused(kStage5, {"--step", number}, {"must be one of 1, 2, 3, 4, 5a"});
}

TEST_CASE("the text names the step and the one it agrees with", "[cli]") {
  const Ended fifth = run(kStage5, small({"--step", "5a", "--repeats", "1"}));
  INFO(fifth.out);
  CHECK(fifth.out.find("Stage 5: mma pipeline, step 5a: ") == 0);
  CHECK(fifth.out.find("\n  step 4     agrees ") != std::string::npos);
  const Ended first = run(kStage5, small({"--step", "1", "--repeats", "1"}));
  CHECK(first.out.find("\n  stage 4    agrees ") != std::string::npos);
}

TEST_CASE("an unknown step is refused by naming those there are", "[cli]") {
  for (const char* label : {"9", "", "5A", "0", "1,2", "5.1"})
    check_refused(kStage5,
                  {"--step", label},
                  {std::string("stage5_mma_pipeline: --step ") + label, "1, 2, 3, 4, 5a, 5b"});
  check_refused(kStage5, {"--step"}, {"--step needs a value"});
}

TEST_CASE("stages without steps refuse --step and --ladder", "[cli]") {
  for (const std::string& stage : {kStage1, kStage2, kStage3, kStage4}) {
    check_refused(stage, {"--step", "2"}, {"--step: stage ", " has no steps"});
    check_refused(stage, {"--step=2"}, {"--step=2: stage ", " has no steps"});
    check_refused(stage, {"--ladder"}, {"--ladder: stage ", " has no steps"});
  }
}

TEST_CASE("the ladder has a line for each step, with the emulator's counts", "[cli]") {
  const Ended ended = run(kStage5, small({"--ladder"}));
  INFO(ended.out << ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(ended.out.find("\nRIGHT\n") != std::string::npos);
  CHECK(ended.out.find("time ") == std::string::npos);
  for (const char* head : {"sectors", "wavefronts", "conflicts", "ldmatrix", "mma", "barriers"})
    CHECK(ended.out.find(head) != std::string::npos);
  std::size_t at = 0;
  for (const std::string& label : labels()) {
    INFO(label);
    at = ended.out.find("\n  " + label + " ", at);
    CHECK(at != std::string::npos);
  }

  const auto ladder = run(kStage5, small({"--ladder", "--json"})).json();
  CHECK(ladder.at("right") == true);
  const auto& steps = ladder.at("steps");
  REQUIRE(steps.size() == labels().size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    CHECK(steps[s].at("stage").at("step") == labels()[s]);
    CHECK(steps[s].at("stage").at("adds").get<std::string>().size() > 3);
    CHECK(steps[s].at("right") == true);
    CHECK(steps[s].at("previous").value("step", "") == (s == 0 ? "" : labels()[s - 1]));
    CHECK(steps[s].at("previous").at("speed_up").is_null());  // the emulator's time says nothing
  }
  CHECK(ladder.at("left_out").empty());
  // What steps 2 and 3 are for.
  CHECK(steps[0].at("counts").at("shared_load_conflicts") > 0);
  CHECK(steps[1].at("counts").at("shared_load_conflicts") == 0);
  CHECK(steps[1].at("counts").at("ldmatrix_conflicts") == 0);
  CHECK(steps[1].at("counts").at("async_copy_bytes") == 0);
  CHECK(steps[2].at("counts").at("async_copy_bytes") > 0);
}

TEST_CASE("the ladder says which steps it leaves out, and which step a note is about", "[cli]") {
  const std::vector<std::string> arguments = {
      "-N", "40", "-H", "1", "-d", "63", "--ladder", "--device", "simt"};
  const Ended text = run(kStage5, arguments);
  INFO(text.out << text.err);
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("left out   steps 6a, 6b, 6c, 6d, 6e, 6f:") != std::string::npos);
  CHECK(text.out.find("\n  6a ") == std::string::npos);
  CHECK(text.err.find("note: step 3: ") != std::string::npos);
  CHECK(text.err.find("note: step 2: ") == std::string::npos);
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const auto left_out = run(kStage5, as_json).json().at("left_out");
  CHECK(left_out == nlohmann::json({"6a", "6b", "6c", "6d", "6e", "6f"}));
}

TEST_CASE("the ladder takes no single step and writes no output", "[cli]") {
  check_refused(kStage5, {"--ladder", "--step", "2"}, {"--step 2: --ladder runs all"});
  check_refused(kStage5, {"--ladder", "--output", "o.safetensors"}, {"--output", "--ladder"});
}

TEST_CASE("a ladder with time has each step's, and the gain over the one before", "[cli]") {
  const std::vector<std::string> arguments = {"-N", "60", "-d", "16", "--ladder", "--repeats", "5"};
  const Ended text = run(kSpoiled, arguments, "steps none");
  INFO(text.out << text.err);
  CHECK(text.exit_code == 0);
  for (const char* part : {"TFLOP/s", "gain", "median of 5 runs", "  x", "RIGHT"})
    CHECK(text.out.find(part) != std::string::npos);
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const auto steps = run(kSpoiled, as_json, "steps none").json().at("steps");
  REQUIRE(steps.size() == 2);
  const auto median = [&](std::size_t s) {
    CHECK(steps[s].at("time_s").at("runs").size() == 5);
    return steps[s].at("time_s").at("median").get<double>();
  };
  const double gain = steps[1].at("previous").at("speed_up");
  CHECK(std::abs(gain * median(1) / median(0) - 1) < 1e-9);
}

TEST_CASE("a wrong step makes the ladder wrong, and is named", "[cli]") {
  const std::vector<std::string> arguments = {"-N", "60", "-d", "16", "--ladder", "--repeats", "1"};
  const Ended text = run(kSpoiled, arguments, "steps O 17 5");
  INFO(text.out);
  CHECK(text.exit_code == 1);
  CHECK(text.out.find("\nWRONG:\nstep 2: 1 of ") != std::string::npos);
  CHECK(text.out.find("O[b=0 h=0 i=1 x=1]") != std::string::npos);
  CHECK(text.out.find("step 1: ") == std::string::npos);
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const auto ladder = run(kSpoiled, as_json, "steps O 17 5").json();
  CHECK(ladder.at("right") == false);
  CHECK(ladder.at("steps")[0].at("right") == true);
  CHECK(ladder.at("steps")[1].at("right") == false);
  CHECK(ladder.at("steps")[1].at("previous").at("right") == false);
}

TEST_CASE("a head dimension that no step takes is refused by name", "[cli]") {
  for (const char* step : {"1", "5a"})
    for (const char* d : {"129", "256", "1000"})
      check_refused(kStage5,
                    {"-N", "20", "-d", d, "--step", step, "--device", "simt"},
                    {std::string("d = ") + d, std::string("step ") + step, "up to 128"});
  // Without a step: what the stage takes in all.
  for (const char* d : {"129", "255", "1000"})
    check_refused(kStage5,
                  {"-N", "20", "-d", d, "--device", "simt"},
                  {std::string("d = ") + d, "up to 128, and multiples of 8 up to 256"});
}

TEST_CASE("stage 5 takes 16 bits: float16 where nothing is said, and float32 files converted",
          "[cli]") {
  CHECK(facts(small({})).at("problem").at("dtype") == "float16");
  CHECK(facts(small({"--dtype", "bfloat16"})).at("problem").at("dtype") == "bfloat16");
  check_refused(kStage5, small({"--dtype", "float32"}), {"float32", "--dtype float16"});

  const TemporaryFolder folder;
  const std::string file = folder / "layer.safetensors";
  fa::Problem p;
  p.Nq = p.Nkv = 40;
  p.d = 16;
  p.scale = fa::default_scale(p.d);
  for (const fa::DType dtype : {fa::DType::float32, fa::DType::bfloat16}) {
    p.dtype = dtype;
    const fa::Inputs in = make_inputs(p, "normal", 7);
    fa::write_safetensors(file, {{"q", in.Q.view()}, {"k", in.K.view()}, {"v", in.V.view()}}, {});
    const Ended ended = run(kStage5, {"--input", file, "--json", "--device", "simt"});
    INFO(ended.err);
    CHECK(ended.exit_code == 0);
    const bool converted = dtype == fa::DType::float32;
    CHECK(ended.json().at("problem").at("dtype") == (converted ? "float16" : "bfloat16"));
    CHECK(ended.json().at("notes").size() == (converted ? 3 : 0));
    CHECK((ended.err.find("note: q converted from float32 to float16") != std::string::npos) ==
          converted);
  }
}

TEST_CASE("rows that are no multiple of 16 bytes are right by step 2's kernel, with a note",
          "[cli]") {
  for (const std::string& label : labels())
    for (const char* d : {"20", "63"}) {
      INFO("step " << label << ", d = " << d);
      if (label[0] == '6') {  // which copies by TMA
        check_refused(kStage5,
                      {"-N", "40", "-d", d, "--step", label, "--device", "simt"},
                      {std::string("d = ") + d, "step " + label, "head dimensions 64"});
        continue;
      }
      const auto f = facts({"-N", "40", "-d", d, "--step", label, "--device", "simt"});
      const bool own = label == "1" || label == "2";
      REQUIRE(f.at("notes").size() == (own ? 0 : 1));
      if (own) continue;
      CHECK(f.at("notes")[0].get<std::string>().find("step 2's kernel ran") != std::string::npos);
      CHECK(f.at("counts").at("async_copy_requests") == 0);
      CHECK(f.at("tile") == nlohmann::json({64, 64}));
    }
}

// m comes from a row's first tile, so a model's largest scores may pass it by more than P has room for.
// Where those are is not everywhere: step 5q looks for them at the mask's edge. Else one row in a block
// would do, and all of the block's products were done twice.
TEST_CASE("a model's rows need no second pass", "[cli]") {
  const auto products = [](const char* step) {
    const auto f = facts({"--input", FA_LAYER, "--step", step, "--device", "simt"});
    return f.at("counts").at("mma").get<double>();
  };
  const double at_each_edge = products("5p");
  for (const char* step : {"5q", "5r", "6f"}) {
    INFO("step " << step);
    CHECK(products(step) <= 1.02 * at_each_edge);
  }
}
