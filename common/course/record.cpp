#include "common/course/record.hpp"

#include <fmt/format.h>

#include "common/course/measure.hpp"
#include "common/course/subprocess.hpp"
#include "common/course/text.hpp"
#include "common/harness/cpu_stage.hpp"
#include "common/harness/main.hpp"
#include "common/harness/units.hpp"

namespace fa::course {

namespace {

nlohmann::ordered_json record_header(const std::string& command) {
  nlohmann::ordered_json file;
  file["machine"] = {{"cpu", processor_name()}, {"cores", processor_cores()}};
  file["date"] = today();
  file["command"] = command;
  return file;
}

/// The shapes that the notes quote.
std::vector<Shape> notes_shapes() {
  std::vector<Shape> shapes = scaling_shapes(3);
  shapes.push_back({"N4096_all_cores", 4096, 0, {3}, 2});
  shapes.push_back({"N65536_all_cores", 65536, 0, {3}, 1});
  return shapes;
}

/// What `./learn WORDS` prints, run from the repository's root so that paths are short.
nlohmann::ordered_json output_of(const Places& places, const std::vector<std::string>& words) {
  std::vector<std::string> argv = words, shown = words;
  for (const CourseStage& stage : stages())
    if (words[0] == fmt::format("stage{}", stage.number))
      argv[0] = (std::filesystem::absolute(places.build) / stage.folder).string();
  if (argv[0] == words[0])
    argv.insert(argv.begin(), (std::filesystem::absolute(places.build) / "learn_course").string());
  shown.insert(shown.begin(), "./learn");
  std::filesystem::current_path(places.root);
  const Finished program = run_program(argv);
  if (program.exit_code != kRight)
    throw Refused(fmt::format(
        "{} ended with exit code {}: not recorded", command_line(shown), program.exit_code));
  nlohmann::ordered_json file = record_header(command_line(shown));
  file["output"] = lines_of(program.output);
  return file;
}

}  // namespace

std::vector<Shape> scaling_shapes(double seconds) {
  std::vector<int> numbers;
  for (const CourseStage& stage : stages())
    if (stage.can_be_timed()) numbers.push_back(stage.number);
  std::vector<Shape> shapes;
  for (Index N = 128; N <= 4096; N *= 2)
    shapes.push_back({fmt::format("N{}", N), N, 1, numbers, seconds});
  return shapes;
}

nlohmann::ordered_json measure_shapes(const std::vector<Shape>& shapes,
                                      const std::string& command,
                                      bool print) {
  nlohmann::ordered_json file = record_header(command);
  for (const Shape& shape : shapes) {
    const Inputs inputs = one_head(shape.N, 64);
    nlohmann::ordered_json& runs = file["runs"][shape.name];
    runs["problem"] = describe(inputs.problem);
    runs["N"] = shape.N;
    runs["threads"] = shape.threads == 0 ? thread_count(Job{}) : shape.threads;
    for (const int number : shape.stages) {
      const fa::Stage stage = stage_by_number(number).stage();
      const DType dtype = stage.dtypes.front();  // float32, but stage 5 takes 16 bits only
      const Measurement m =
          dtype == inputs.problem.dtype
              ? measure(stage, inputs, shape.threads, shape.seconds)
              : measure(stage, one_head(shape.N, 64, dtype), shape.threads, shape.seconds);
      runs[fmt::format("stage{}", number)] = {
          {"title", stage_by_number(number).title},
          {"device", stage_by_number(number).device_here()},
          {"dtype", name_of(dtype)},
          {"seconds", m.seconds},
          {"repeats", m.repeats},
          {"flop", m.flop},
          {"gflops", m.gflops()},
          {"extra_bytes", m.extra_bytes},
          {"extra_bytes_predicted", m.extra_bytes_predicted},
          {"traffic_bytes", m.traffic_bytes},
      };
      if (print)
        fmt::print("{:<18} stage {}   {:>10}   {:7.2f} GFLOP/s   {:>10} extra\n",
                   shape.name,
                   number,
                   seconds_text(m.seconds),
                   m.gflops(),
                   bytes_text(m.extra_bytes));
    }
  }
  return file;
}

int run_record(const Places& places, const RecordOptions& options) {
  if (options.name.empty() || options.name.find_first_of("/\\.") != std::string::npos)
    throw Refused(
        fmt::format("name '{}': must be a file's name without folder and ending", options.name));
  const std::filesystem::path folder = std::filesystem::absolute(places.root) / "notes" / "results";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  write_text(folder / ".writable", "");  // found out now if it isn't, not after the measurements
  std::filesystem::remove(folder / ".writable", error);

  const nlohmann::ordered_json file =
      options.words.empty() ? measure_shapes(notes_shapes(), "./learn record " + options.name, true)
                            : output_of(places, options.words);
  write_text(folder / (options.name + ".json"), file.dump(2) + "\n");
  fmt::print("notes/results/{}.json written; ./learn notes --fill brings it into the pages\n",
             options.name);
  return kRight;
}

}  // namespace fa::course
