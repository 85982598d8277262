// The numbers that a run prints: FLOP, extra memory, traffic.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

namespace {

nlohmann::json facts(const std::string& stage, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--repeats", "1", "--json"});
  const Ended ended = run(stage, arguments);
  INFO(ended.err);
  CHECK(ended.exit_code == 0);
  return ended.json();
}

double extra_memory(const std::string& stage, const char* N) {
  const auto f = facts(stage, {"-N", N, "-d", "16", "--threads", "1"});
  CHECK(f.at("extra_memory_bytes") == f.at("extra_memory_bytes_by_formula"));
  return f.at("extra_memory_bytes");
}

}  // namespace

TEST_CASE("FLOP counts visible pairs, exactly", "[cli]") {
  std::vector<std::string> arguments = {"-B", "2", "-H", "16", "-N", "128", "-d", "64"};
  CHECK(facts(kStage3, arguments).at("flop") == 134217728);
  arguments.push_back("--causal");
  const auto causal = facts(kStage3, arguments);
  CHECK(causal.at("flop") == 67633152);
  const double rate =
      causal.at("flop").get<double>() / 1e9 / causal.at("time_s").at("median").get<double>();
  CHECK(std::abs(causal.at("gflop_per_s").get<double>() / rate - 1) < 1e-6);
  // More than 32 bits hold: 65,536 rows of up to 129 keys.
  const auto window = facts(kStage3, {"-N", "65536", "--window", "64,64", "-d", "128"});
  CHECK(window.at("flop") == 4326391808);
}

TEST_CASE("extra memory grows x4 from N 1024 to 2048 in stage 1, and not in 2 and 3", "[cli]") {
  const double naive = extra_memory(kStage1, "1024");
  CHECK(naive == 8.0 * 1024 * 1024 + 4 * (1024 + 16));  // S and P, l, a row of O
  CHECK(std::abs(extra_memory(kStage1, "2048") / naive - 4) < 0.004);
  CHECK(extra_memory(kStage2, "1024") == 4 * 16);
  CHECK(extra_memory(kStage2, "2048") == 4 * 16);
  const double growth = extra_memory(kStage3, "2048") / extra_memory(kStage3, "1024");
  CHECK((growth == 1 || growth == 2));
}

TEST_CASE("a long head runs in stage 3 without a big allocation", "[cli]") {
  const auto f = facts(kStage3, {"-N", "65536", "--window", "64,64", "-d", "32"});
  CHECK(f.at("extra_memory_bytes") < 8e6);
}

TEST_CASE("timed runs are as many as asked for", "[cli]") {
  const auto f = run(kStage2, {"-N", "64", "--repeats", "7", "--json"}).json();
  CHECK(f.at("time_s").at("runs").size() == 7);
  CHECK(f.at("time_s").at("warmed_up") == true);
}

TEST_CASE("stage 1 takes fewer threads where S and P of all don't fit", "[cli]") {
  if (run(kStage1, {"-N", "10"}, "", 4e8).exit_code != 0)
    return;  // a sanitizer takes terabytes of addresses
  // 2 · 4 · 6000² = 288 MB for a thread.
  const Ended ended = run(
      kStage1, {"-N", "6000", "-d", "4", "-H", "2", "--threads", "2", "--repeats", "1"}, "", 6e8);
  INFO(ended.err << ended.out);
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("2 threads would need 576 MB for S and P") != std::string::npos);
  CHECK(ended.err.find("running with 1") != std::string::npos);
  CHECK(ended.out.find("1 thread") != std::string::npos);

  const Ended refused = run(kStage1, {"-N", "6000", "-d", "4"}, "", 2e8);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("needs 288 MB for S and P at N = 6000") != std::string::npos);
  CHECK(refused.err.find("stage2_online_softmax_cpu") != std::string::npos);
  // Stage 2 runs there, and is compared with stage 1 on some queries.
  const Ended second = run(kStage2, {"-N", "6000", "-d", "4", "--repeats", "1"}, "", 2e8);
  INFO(second.err << second.out);
  CHECK(second.exit_code == 0);
  CHECK(second.out.find("stage 1    agrees") != std::string::npos);
  CHECK(second.out.find("of 6,000 queries") != std::string::npos);
}
