#include "common/course/pictures.hpp"

#include <algorithm>

#include "common/course/stages.hpp"
#include "common/course/subprocess.hpp"
#include "common/course/text.hpp"

namespace fa::course {

namespace {
const CourseStage& last_cpu_stage() {
  return *std::find_if(stages().rbegin(), stages().rend(), [](const CourseStage& stage) {
    return !stage.on_device;
  });
}
}  // namespace

Pictures draw_pictures(const Places& places) {
  const char* is_missing =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('matplotlib') is None)";
  if (run_program({"python3", "-c", is_missing}).exit_code != 0)
    return {
        {},
        "No pictures: Python's matplotlib isn't installed (apt-get install python3-matplotlib)."};
  const std::filesystem::path folder = places.build / "tour";
  std::filesystem::create_directories(folder);
  const std::string plot = (places.root / "common/bench/plot.py").string();
  const std::string maps = (folder / "attention.png").string(),
                    scaling = (folder / "scaling.png").string();
  const std::string numbers = (folder / "scaling.json").string();
  const auto head = [&](const char* file) {
    return (places.root / "common/data" / file).string() + ":1";
  };

  Pictures pictures;
  if (run_program({"python3",
                   plot,
                   "attention",
                   "--stage",
                   (places.build / last_cpu_stage().folder).string(),
                   "--out",
                   maps,
                   head("smollm2_layer02.safetensors"),
                   head("smollm2_layer27.safetensors")})
          .exit_code == 0)
    pictures.lines.push_back(
        maps +
        "  which token looks at which: an early head at the token before it, a deep one at the "
        "first token of all. The weights come from a stage itself: with V = identity, O is P.");
  write_text(numbers, measure_shapes(scaling_shapes(0.2), "./learn tour", false).dump(1) + "\n");
  if (run_program({"python3", plot, "scaling", "--input", numbers, "--out", scaling}).exit_code ==
      0)
    pictures.lines.push_back(scaling +
                             "  time and extra memory over N, measured now on this machine");
  if (pictures.lines.empty())
    pictures.skipped = "No pictures: common/bench/plot.py failed, see above.";
  return pictures;
}

}  // namespace fa::course
