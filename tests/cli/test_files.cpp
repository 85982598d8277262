// Input from files, output to files.
#include <cmath>
#include <fstream>

#include "common/harness/inputs.hpp"
#include "common/io/npy.hpp"
#include "common/io/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/cli/executable.hpp"

using namespace fa;
using namespace fa::cli;

namespace {

Inputs small_inputs(DType dtype = DType::float32) {
  Problem p;
  p.B = 2;
  p.Hq = 4;
  p.Hkv = 2;
  p.Nq = 20;
  p.Nkv = 30;
  p.d = 8;
  p.dtype = dtype;
  p.scale = default_scale(p.d);
  return make_inputs(p, "normal", 7);
}

void write(const std::string& path,
           const Inputs& in,
           const std::map<std::string, std::string>& metadata = {}) {
  write_safetensors(path, {{"q", in.Q.view()}, {"k", in.K.view()}, {"v", in.V.view()}}, metadata);
}

nlohmann::json facts(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "--repeats", "1"});
  const Ended ended = cli::run(kStage2, arguments);
  INFO(ended.err << ended.out);
  REQUIRE(ended.exit_code == 0);
  return ended.json();
}

std::string refusal(const std::vector<std::string>& arguments) {
  const Ended ended = cli::run(kStage2, arguments);
  CHECK(ended.exit_code == 2);
  CHECK(ended.out.empty());
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  return ended.err;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text << " has no '" << part << "'");
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a file's shapes, type, mask and scale become the problem", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "layer.safetensors";
  write(file, small_inputs(DType::bfloat16), {{"causal", "true"}, {"scale", "0.25"}});
  const auto problem = facts({"--input", file}).at("problem");
  CHECK(problem.at("B") == 2);
  CHECK(problem.at("Hq") == 4);
  CHECK(problem.at("Hkv") == 2);
  CHECK(problem.at("Nq") == 20);
  CHECK(problem.at("Nkv") == 30);
  CHECK(problem.at("d") == 8);
  CHECK(problem.at("dtype") == "bfloat16");
  CHECK(problem.at("causal") == true);
  CHECK(problem.at("scale") == 0.25);
}

TEST_CASE("a window in the file's metadata holds, unless the command line has one", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "layer.safetensors";
  write(file, small_inputs(), {{"window", "5,-1"}});
  CHECK(facts({"--input", file}).at("problem").at("window") == nlohmann::json({5, -1}));
  CHECK(facts({"--input", file, "--window", "-1,2"}).at("problem").at("window") ==
        nlohmann::json({-1, 2}));
  for (const char* window : {"5", "", "-2,0", "1;2"}) {
    write(file, small_inputs(), {{"window", window}});
    has(refusal({"--input", file}), std::string("metadata window is '") + window + "'");
  }
}

TEST_CASE("the command line wins over the file", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "layer.safetensors";
  write(file, small_inputs(), {{"causal", "true"}, {"scale", "0.25"}});
  const auto problem =
      facts({"--input", file, "--no-causal", "--scale", "0.1", "--window", "3,-1"}).at("problem");
  CHECK(problem.at("causal") == false);
  CHECK(problem.at("scale") == 0.1);
  CHECK(problem.at("window") == nlohmann::json({3, -1}));
}

TEST_CASE("A file is converted by --dtype, with a note", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "layer.safetensors";
  write(file, small_inputs());
  const Ended ended = cli::run(kStage2, {"--input", file, "--dtype", "float16", "--json"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.json().at("problem").at("dtype") == "float16");
  CHECK(ended.json().at("notes").size() == 3);
  has(ended.err, "note: q converted from float32 to float16");
}

TEST_CASE("the model's layer runs right in every stage", "[cli]") {
  for (const std::string& stage : kStages) {
    const Ended ended = cli::run(stage, {"--input", FA_LAYER, "--repeats", "1", "--json"});
    INFO(ended.err << ended.out);
    CHECK(ended.exit_code == 0);
    const auto problem = ended.json().at("problem");
    CHECK(problem.at("Hq") == 9);
    CHECK(problem.at("Hkv") == 3);
    CHECK(problem.at("Nq") == 1021);
    CHECK(problem.at("causal") == true);
  }
}

TEST_CASE("q, k and v from .npy", "[cli]") {
  const TemporaryFolder folder;
  const Inputs in = small_inputs();
  write_npy(folder / "q.npy", in.Q.view());
  write_npy(folder / "k.npy", in.K.view());
  write_npy(folder / "v.npy", in.V.view());
  const auto problem =
      facts({"--q", folder / "q.npy", "--k", folder / "k.npy", "--v", folder / "v.npy"})
          .at("problem");
  CHECK(problem.at("Hq") == 4);
  CHECK(problem.at("Nkv") == 30);
  has(refusal({"--q", folder / "q.npy", "--k", folder / "k.npy", "--v", folder / "w.npy"}),
      "w.npy");
  has(refusal({"--input", folder / "q.npy"}), "--q, --k and --v");
  // Q has 4 heads of 20, K 2 of 30: as V it doesn't go with K.
  const std::string swapped =
      refusal({"--q", folder / "k.npy", "--k", folder / "q.npy", "--v", folder / "v.npy"});
  has(swapped, "[2, 4, 20, 8]");
  has(swapped, "[2, 2, 30, 8]");
}

TEST_CASE("o and lse come back bit by bit as the stage wrote them", "[cli]") {
  const TemporaryFolder folder;
  const std::string input = folder / "in.safetensors", output = folder / "out.safetensors";
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const Inputs in = small_inputs(dtype);
    write(input, in);
    const auto f = facts({"--input", input, "--output", output});
    CHECK(f.at("output") == output);
    const SafetensorsFile written = read_safetensors(output, {"o"});
    CHECK(written.contents.at("lse") == "F32 [2, 4, 20]");
    CHECK(written.metadata.at("stage") == "stage2_online_softmax_cpu");
    CHECK(written.metadata.at("causal") == "false");
    const AnyTensor o = require(written, "o").view();
    CHECK(o.dtype == dtype);
    const auto rows = oracle(in.problem, in.Q.view(), in.K.view(), in.V.view(), 1, 3, {0, 19});
    for (Index x = 0; x < 8; ++x) {
      CHECK(std::abs(o.at(1, 3, 0, x) - rows[0].O[x]) <= tolerance_O(rows[0], x, 8, dtype));
      CHECK(std::abs(o.at(1, 3, 19, x) - rows[1].O[x]) <= tolerance_O(rows[1], x, 8, dtype));
    }
  }
  CHECK(folder.names().size() == 2);  // no temporary file is left
}

TEST_CASE("an existing output is replaced by a run that ends", "[cli]") {
  const TemporaryFolder folder;
  const std::string output = folder / "o.safetensors";
  std::ofstream(output) << "old";
  facts({"-N", "5", "--output", output});
  CHECK(read_safetensors(output, {"o"}).tensors.size() == 1);
}

TEST_CASE("tensors that disagree are refused with both shapes", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "bad.safetensors";
  const auto refused = [&](const Storage& q, const Storage& k, const Storage& v) {
    write_safetensors(file, {{"q", q.view()}, {"k", k.view()}, {"v", v.view()}});
    return refusal({"--input", file});
  };
  const auto f32 = [](Index B, Index H, Index N, Index d) {
    return Storage(DType::float32, B, H, N, d);
  };
  std::string line = refused(f32(1, 2, 5, 8), f32(1, 2, 5, 4), f32(1, 2, 5, 4));
  has(line, "q [1, 2, 5, 8]");
  has(line, "k [1, 2, 5, 4]");
  line = refused(f32(2, 2, 5, 8), f32(1, 2, 5, 8), f32(1, 2, 5, 8));
  has(line, "q [2, 2, 5, 8]");
  line = refused(f32(1, 2, 5, 8), f32(1, 2, 5, 8), f32(1, 2, 6, 8));
  has(line, "v [1, 2, 6, 8]");
  line = refused(f32(1, 3, 5, 8), f32(1, 2, 5, 8), f32(1, 2, 5, 8));
  has(line, "Hq = 3");
  has(line, "Hkv = 2");
  line = refused(f32(1, 2, 5, 8), Storage(DType::float16, 1, 2, 5, 8), f32(1, 2, 5, 8));
  has(line, "float32");
  has(line, "float16");
}

TEST_CASE("files that lack something or say nonsense are refused by name", "[cli]") {
  const TemporaryFolder folder;
  has(refusal({"--input", folder / "none.safetensors"}), "none.safetensors");
  const std::string file = folder / "bad.safetensors";
  const Inputs in = small_inputs();
  write_safetensors(file, {{"q", in.Q.view()}, {"k", in.K.view()}});
  const std::string line = refusal({"--input", file});
  has(line, "bad.safetensors");
  has(line, "\"v\"");
  write(file, in, {{"scale", "nan"}});
  has(refusal({"--input", file}), "'nan'");
  write(file, in, {{"causal", "yes"}});
  has(refusal({"--input", file}), "'yes'");
  write_safetensors(file, {{"q", NamedArray(DType::float32, {5}, in.Q.view().data)}});
  has(refusal({"--input", file}), "[5]");
}

TEST_CASE("files without queries or keys run", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "empty.safetensors";
  const Storage none(DType::float32, 1, 2, 0, 8), some(DType::float32, 1, 2, 5, 8);
  write_safetensors(file, {{"q", some.view()}, {"k", none.view()}, {"v", none.view()}});
  facts({"--input", file});
  write_safetensors(file, {{"q", none.view()}, {"k", some.view()}, {"v", some.view()}});
  facts({"--input", file, "--output", folder / "o.safetensors"});
}

TEST_CASE("NaN in the input is legal and reaches only the rows that see it", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "nan.safetensors";
  const Inputs in = small_inputs();
  static_cast<float*>(in.Q.view().data)[0] = NAN;
  write(file, in);
  for (const std::string& stage : kStages) {
    const Ended ended = cli::run(stage, {"--input", file, "--repeats", "1"});
    INFO(ended.err << ended.out);
    CHECK(ended.exit_code == 0);
  }
}
