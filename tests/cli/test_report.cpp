// What a run prints: text for people, JSON for programs, nothing between them.
#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

TEST_CASE("JSON is one object on one line, with every fact", "[cli]") {
  for (const std::string& stage : kStages) {
    const Ended ended = run(stage, {"-N", "100", "--causal", "--dtype", "float16", "--json"});
    CHECK(ended.exit_code == 0);
    CHECK(ended.err.empty());
    CHECK(ended.out.find('\n') == ended.out.size() - 1);
    const auto facts = ended.json();
    for (const char* key : {"stage",
                            "problem",
                            "input",
                            "device",
                            "threads",
                            "tile",
                            "time_s",
                            "visible_pairs",
                            "flop",
                            "gflop_per_s",
                            "extra_memory_bytes",
                            "traffic_bytes",
                            "traffic_source",
                            "oracle",
                            "previous",
                            "output",
                            "notes",
                            "right",
                            "failure"}) {
      INFO(key);
      CHECK(facts.contains(key));
    }
    CHECK(facts.at("visible_pairs") == 5050);
    CHECK(facts.at("oracle").at("rule_16_bit").at("right") == true);
    CHECK(facts.at("right") == true);
    CHECK(facts.at("failure").is_null());
    CHECK(facts.at("traffic_source") == "formula");
  }
}

TEST_CASE("numbers that JSON can't hold are strings", "[cli]") {
  // No keys: LSE is -inf.
  const auto facts = run(kStage1, {"-N", "3", "--kv-len", "0", "--json"}).json();
  CHECK(facts.at("right") == true);
  CHECK(facts.at("oracle").at("LSE").at("compared") == 3);
}

TEST_CASE("the text has a line for each fact and ends with the verdict", "[cli]") {
  for (const std::string& stage : kStages) {
    const Ended ended = run(stage, {"-N", "100", "-H", "6", "--kv-heads", "2", "--repeats", "3"});
    INFO(ended.out);
    CHECK(ended.exit_code == 0);
    CHECK(ended.err.empty());
    for (const char* part : {"\n  problem ",
                             "H 6 on 2 KV heads",
                             "\n  device ",
                             "\n  time ",
                             "median of 3 runs",
                             "GFLOP/s",
                             "\n  memory ",
                             "\n  traffic ",
                             "by formula",
                             "\n  oracle ",
                             "all 100 queries",
                             "\n\nRIGHT\n"}) {
      INFO(part);
      CHECK(ended.out.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("a run in the emulator says whose time it is, and compares it with nothing", "[cli]") {
  const std::vector<std::string> shape = {
      "-N", "70", "-d", "16", "--device", "simt", "--repeats", "1"};
  const Ended text = run(kStage4, shape);
  INFO(text.out);
  CHECK(text.exit_code == 0);
  for (const char* part :
       {"emulator", "says nothing of a GPU's", "global memory, counted", "RIGHT"})
    CHECK(text.out.find(part) != std::string::npos);
  for (const char* part : {"GFLOP/s", "times as"}) CHECK(text.out.find(part) == std::string::npos);

  std::vector<std::string> as_json = shape;
  as_json.push_back("--json");
  const auto facts = run(kStage4, as_json).json();
  CHECK(facts.at("emulated") == true);
  CHECK(facts.at("gflop_per_s").is_null());
  CHECK(facts.at("previous").at("speed_up").is_null());
  CHECK(facts.at("traffic_source") == "counted");
  CHECK(facts.at("counts").at("exponentials") > 0);
  CHECK(run(kStage3, {"-N", "70", "--json"}).json().at("emulated") == false);
}

TEST_CASE("nothing to compute is right too", "[cli]") {
  for (const std::string& stage : kStages)
    for (const std::vector<std::string>& sizes :
         std::vector<std::vector<std::string>>{{"-N", "0"},
                                               {"--kv-len", "0"},
                                               {"-N", "0", "--kv-len", "0"},
                                               {"-N", "0", "--kv-len", "9"}})
      CHECK(run(stage, sizes).exit_code == 0);
}

TEST_CASE("help and the list of patterns go to standard output", "[cli]") {
  const Ended help = run(kStage3, {"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  for (const char* flag : {"--input", "--kv-heads", "--window", "--br", "--json", "Exit codes"})
    CHECK(help.out.find(flag) != std::string::npos);
  const Ended patterns = run(kStage1, {"--list-patterns"});
  CHECK(patterns.exit_code == 0);
  CHECK(patterns.out.find("stairs-up") != std::string::npos);
}

TEST_CASE("every pattern, type and mask runs right in every stage", "[cli]") {
  for (const std::string& stage : kStages)
    for (const char* pattern : {"normal",
                                "uniform",
                                "stairs-up",
                                "stairs-down",
                                "all-low",
                                "long-tail",
                                "mean",
                                "constant"})
      for (const char* dtype : {"float32", "float16", "bfloat16"}) {
        const Ended ended = run(stage,
                                {"-N",
                                 "130",
                                 "--kv-len",
                                 "150",
                                 "-d",
                                 "20",
                                 "--causal",
                                 "--window",
                                 "100,-1",
                                 "--pattern",
                                 pattern,
                                 "--dtype",
                                 dtype,
                                 "--repeats",
                                 "1"});
        INFO(stage << " " << pattern << " " << dtype << "\n" << ended.out << ended.err);
        CHECK(ended.exit_code == 0);
      }
}
