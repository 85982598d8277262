// Every run checks itself: what it finds, what it samples, what it compares with.
#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

namespace {

// 2 heads of 50 queries, d = 16: 1,600 elements of O, 100 of LSE.
const std::vector<std::string> kSmall = {"-H", "2", "-N", "50", "-d", "16", "--repeats", "1"};

nlohmann::json run_flawed(const std::string& flaw) {
  std::vector<std::string> arguments = kSmall;
  arguments.push_back("--json");
  const Ended ended = run(kSpoiled, arguments, flaw);
  INFO(flaw << " " << ended.err);
  CHECK(ended.exit_code == 1);
  nlohmann::json facts = ended.json();
  CHECK(facts.at("right") == false);
  CHECK(facts.at("failure").is_string());
  return facts;
}

}  // namespace

TEST_CASE("the spoiled stage without a flaw is right", "[cli]") {
  const Ended ended = run(kSpoiled, kSmall);
  CHECK(ended.exit_code == 0);
  CHECK(ended.out.find("\nRIGHT\n") != std::string::npos);
}

TEST_CASE("NaN and infinity in O are found wherever they are, with count and index", "[cli]") {
  struct Place {
    const char* element;
    const char* name;
  };
  for (const Place place : {Place{"0", "O[b=0 h=0 i=0 x=0]"},
                            Place{"900", "O[b=0 h=1 i=6 x=4]"},
                            Place{"1599", "O[b=0 h=1 i=49 x=15]"}})
    for (const char* value : {"nan", "inf", "-inf"}) {
      const auto facts = run_flawed(std::string("O ") + place.element + " " + value);
      const auto& O = facts.at("oracle").at("O");
      CHECK(O.at("wrong") == 1);
      CHECK(O.at("wrong_nonfinite") == 1);
      CHECK(O.at("compared") == 1600);
      CHECK(O.at("first_wrong").at("where") == place.name);
      CHECK(O.at("first_wrong").at("got") == value);
      const std::string failure = facts.at("failure");
      CHECK(failure.find("1 of 1600") != std::string::npos);
      CHECK(failure.find(place.name) != std::string::npos);
      CHECK(facts.at("previous").at("right") == false);
    }
}

TEST_CASE("one element of O a little off is found", "[cli]") {
  const auto facts = run_flawed("O 900 0.75");
  CHECK(facts.at("oracle").at("O").at("wrong") == 1);
  CHECK(facts.at("oracle").at("O").at("worst").at("got") == 0.75);
  CHECK(facts.at("oracle").at("O").at("max_error_over_tolerance") > 1);
}

TEST_CASE("one entry of LSE off is found", "[cli]") {
  for (const char* value : {"7", "nan", "-inf"}) {
    const auto facts = run_flawed(std::string("LSE 99 ") + value);
    CHECK(facts.at("oracle").at("O").at("wrong") == 0);
    CHECK(facts.at("oracle").at("LSE").at("wrong") == 1);
    CHECK(facts.at("oracle").at("LSE").at("first_wrong").at("where") == "LSE[b=0 h=1 i=49]");
  }
}

TEST_CASE("elements that were never written and overwritten guards are found", "[cli]") {
  const auto unwritten = run_flawed("unwritten");
  CHECK(unwritten.at("oracle").at("unwritten") == 1700);
  const auto guard = run_flawed("guard");
  CHECK(guard.at("oracle").at("guards_intact") == false);
  CHECK(guard.at("failure").get<std::string>().find("guard") != std::string::npos);
}

TEST_CASE("the text says WRONG, how much and where", "[cli]") {
  const Ended ended = run(kSpoiled, kSmall, "O 900 nan");
  CHECK(ended.exit_code == 1);
  CHECK(ended.out.find("\nWRONG: 1 of 1600 elements wrong (1 NaN or infinite)") !=
        std::string::npos);
  CHECK(ended.out.find("O[b=0 h=1 i=6 x=4]") != std::string::npos);
  CHECK(ended.out.find("RIGHT") == std::string::npos);
}

TEST_CASE("a wrong result is written all the same", "[cli]") {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), {"--output", folder / "o.safetensors"});
  CHECK(run(kSpoiled, arguments, "O 900 nan").exit_code == 1);
  CHECK(folder.names() == std::vector<std::string>{"o.safetensors"});
}

TEST_CASE("stages 2 and 3 are compared with the stage before, stage 1 with none", "[cli]") {
  const std::vector<std::string> arguments = {"-N", "200", "--repeats", "1", "--json"};
  CHECK(run(kStage1, arguments).json().at("previous").is_null());
  const auto second = run(kStage2, arguments).json().at("previous");
  CHECK(second.at("number") == 1);
  CHECK(second.at("name") == "stage1_naive");
  const auto third = run(kStage3, arguments).json().at("previous");
  CHECK(third.at("number") == 2);
  CHECK(third.at("right") == true);
  CHECK(third.at("queries").at("compared") == 200);
  CHECK(third.at("difference").at("compared") == 200 * 65);
  CHECK(third.at("time_s").at("median") > 0);
  CHECK(third.at("speed_up") > 0);
}

TEST_CASE("where all rows take too long some are checked, and the run says which", "[cli]") {
  // 8,192 · 8,192 · 64 multiplications and as many additions; the causal window leaves few of them
  // to the stage, but the sizes are what the sample is for.
  const std::vector<std::string> arguments = {
      "-N", "8192", "-H", "2", "--causal", "--window", "4000,0", "--repeats", "1"};
  const Ended text = run(kStage3, arguments);
  INFO(text.err);
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("of 8,192 queries in each head (first, last, tile edges, 64 random)") !=
        std::string::npos);
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const auto facts = run(kStage3, with_json).json();
  const auto& queries = facts.at("oracle").at("queries");
  CHECK(queries.at("of") == 8192);
  CHECK(queries.at("compared") < 200);
  CHECK(queries.at("compared") > 64);
  CHECK(facts.at("previous").at("right") == true);
}

TEST_CASE("scores beyond float32 are nobody's mistake, and the run says so", "[cli]") {
  for (const std::string& stage : kStages) {
    const Ended ended = run(stage, {"-N", "64", "--scale", "1e38", "--repeats", "1"});
    INFO(ended.out << ended.err);
    CHECK(ended.exit_code == 0);
    CHECK(ended.out.find("NaN or infinite, as the input allows") != std::string::npos);
  }
}
