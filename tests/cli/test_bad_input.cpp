// Whatever is wrong with a command line: one line that names it, exit code 2, nothing on standard
// output, nothing written, and soon.
#include <algorithm>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa::cli;

namespace {

/// Refused, quickly, in one line that begins with the executable's name and has every one of these
/// words.
void require_refused(const std::string& program,
                     const std::vector<std::string>& arguments,
                     const std::vector<std::string>& words) {
  const Ended ended = run(program, arguments);
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  INFO(line << "-> " << ended.err);
  CHECK(ended.exit_code == 2);
  CHECK(ended.out.empty());
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  CHECK(ended.err.back() == '\n');
  const std::string name = std::filesystem::path(program).filename().string();
  CHECK(ended.err.compare(0, name.size() + 2, name + ": ") == 0);
  for (const std::string& word : words) {
    INFO("expected in it: " << word);
    CHECK(ended.err.find(word) != std::string::npos);
  }
  CHECK(ended.seconds < 5);
}

}  // namespace

TEST_CASE("an unknown flag is refused and the nearest name offered", "[cli]") {
  for (const std::string& stage : kStages) {
    require_refused(stage, {"--casual"}, {"--casual", "did you mean --causal?"});
    require_refused(stage, {"--kv_heads=2"}, {"--kv_heads", "--kv-heads"});
    require_refused(stage, {"-n", "5"}, {"did you mean -N?"});
    require_refused(stage, {"--zebra"}, {"--zebra", "--help"});
    require_refused(stage, {"layer.safetensors"}, {"layer.safetensors", "--help"});
    require_refused(stage, {"--two\nlines"}, {"--two lines"});
  }
}

TEST_CASE("dropout, biases and backward are refused with the place in the notes", "[cli]") {
  for (const char* flag : {"--dropout", "--bias", "--alibi", "--backward"})
    require_refused(kStage2, {flag, "0.1"}, {flag, "notes/00_start_here.md"});
}

TEST_CASE("integers are refused with flag, value and range", "[cli]") {
  for (const char* flag : {"-B", "-H", "-N", "--kv-len", "--kv-heads", "-d", "--seed"})
    for (const char* value : {"-5", "1e9", "99999999999999999999", "x", "1.5", "0x10", " 1"})
      require_refused(kStage1, {flag, value}, {std::string(flag) + " " + value, "from "});
  for (const char* flag : {"-B", "-H", "-d", "--threads", "--repeats"})
    require_refused(kStage1, {flag, "0"}, {std::string(flag) + " 0", "from 1 to"});
  require_refused(kStage1, {"-N"}, {"-N needs a value"});
  for (const char* flag : {"--json=x", "--causal=7", "--list-patterns=a"})
    require_refused(kStage1, {flag}, {flag, "takes no value"});
  require_refused(kStage1, {"-N", ""}, {"-N ''"});
  require_refused(kStage1, {"-N", "1", "-N", "2"}, {"-N is given more than once"});
}

TEST_CASE("query heads that are no multiple of the KV heads are refused with both numbers",
          "[cli]") {
  for (const std::string& stage : kStages) {
    require_refused(stage, {"-H", "33", "--kv-heads", "2"}, {"33", "2", "multiple"});
    require_refused(stage, {"-H", "3", "--kv-heads", "2"}, {"3", "2"});
    require_refused(stage, {"-H", "2", "--kv-heads", "4"}, {"2", "4"});
    require_refused(stage, {"-H", "4", "--kv-heads", "0"}, {"4", "0"});
  }
}

TEST_CASE("a scale that is no finite number is refused", "[cli]") {
  for (const char* value : {"nan", "inf", "-inf", "1e300", "x", "", "1,5"})
    require_refused(kStage3, {"--scale", value}, {std::string("--scale ") + value, "finite"});
}

TEST_CASE("windows are two bounds, each -1 or more", "[cli]") {
  for (const char* value : {"-2,0", "0,-2", "5", "1,2,3", ",", "a,b", "1, 2"})
    require_refused(kStage3, {"--window", value}, {value, "L,R", "-1"});
}

TEST_CASE("tiles are refused where there are none, and below 1", "[cli]") {
  require_refused(kStage1, {"--br", "64"}, {"--br 64", "stage 1 has no tiles"});
  require_refused(kStage2, {"--bc", "64"}, {"--bc 64", "stage 2 has no tiles"});
  require_refused(kStage4, {"--br", "64"}, {"--br 64", "stage 4's tiles are part of its kernel"});
  for (const char* value : {"0", "-1", "99999999999"})
    for (const char* flag : {"--br", "--bc"})
      require_refused(kStage3, {flag, value}, {std::string(flag) + " " + value, "from 1 to"});
}

TEST_CASE("flags that contradict each other are refused by name", "[cli]") {
  require_refused(kStage1, {"--causal", "--no-causal"}, {"--causal", "--no-causal"});
  require_refused(kStage1, {"--input", FA_LAYER, "-N", "64"}, {"-N 64"});
  require_refused(kStage1, {"--input", FA_LAYER, "--seed", "2"}, {"--seed 2"});
  require_refused(kStage1, {"--input", FA_LAYER, "--q", "q.npy"}, {"--q"});
  require_refused(kStage1, {"--q", "q.npy"}, {"--q, --k and --v"});
  require_refused(kStage1, {"--dtype", "float64"}, {"--dtype float64", "bfloat16"});
  require_refused(kStage1, {"--pattern", "stairs"}, {"--pattern stairs", "stairs-up"});
}

TEST_CASE("sizes that don't fit into memory are refused with the estimate", "[cli]") {
  const char* far_too_many = "4000000";  // queries: 128 TB for S and P
  require_refused(kStage1, {"-N", far_too_many, "-d", "1"}, {"128 TB", "S and P", "stage2"});
  for (const std::string& stage : kStages) {
    require_refused(stage, {"-N", "281474976710656", "-d", "1"}, {"PB", "are free"});
    require_refused(stage, {"-N", "281474976710656"}, {"2^48"});
    require_refused(stage, {"-B", "281474976710656", "-N", "0"}, {"PB", "are free"});
    require_refused(stage, {"-N", "0", "--kv-len", "100000000000"}, {"TB", "are free"});
  }
}

TEST_CASE("an output that can't be written is refused before the run", "[cli]") {
  const TemporaryFolder folder;
  // A run of hours: only a refusal before it ends soon.
  const std::vector<std::string> hours = {"-N", "400000", "--output"};
  const auto to = [&](const std::string& file) {
    std::vector<std::string> arguments = hours;
    arguments.push_back(file);
    return arguments;
  };
  require_refused(
      kStage3, to(folder / "no/such/folder.safetensors"), {"no/such/folder.safetensors"});
  require_refused(kStage3, to("/proc/o.safetensors"), {"/proc/o.safetensors"});
  require_refused(kStage3, to(folder / "o.npy"), {"o.npy", ".safetensors"});
  require_refused(kStage3, to(""), {"--output"});
  std::filesystem::create_directory(folder / "folder.safetensors");
  require_refused(kStage3, to(folder / "folder.safetensors"), {"directory"});
}

TEST_CASE("a refusal leaves an existing output as it was, and nothing beside it", "[cli]") {
  const TemporaryFolder folder;
  const std::string output = folder / "o.safetensors";
  std::ofstream(output) << "precious";
  require_refused(kStage1, {"--input", folder / "none", "--output", output}, {"none"});
  require_refused(kStage1, {"-N", "4000000", "-d", "1", "--output", output}, {"are free"});
  CHECK(folder.names() == std::vector<std::string>{"o.safetensors"});
  CHECK(std::filesystem::file_size(output) == 8);
}

TEST_CASE("exceptions and exhausted memory end in one line", "[cli]") {
  const Ended memory = run(kSpoiled, {"-N", "10"}, "no memory");
  CHECK(memory.exit_code == 2);
  CHECK(memory.err.find("spoiled_stage: out of memory") == 0);
  const Ended exception = run(kSpoiled, {"-N", "10"}, "exception");
  CHECK(exception.exit_code == 2);
  CHECK(exception.err == "spoiled_stage: two lines\n");
  const Ended device = run(kSpoiled, {"-N", "10"}, "cannot run");
  CHECK(device.exit_code == 77);
  CHECK(device.err.find("no such device") != std::string::npos);
}
