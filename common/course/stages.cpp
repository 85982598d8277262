#include "common/course/stages.hpp"

#include <fmt/format.h>

namespace fa {
Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
}  // namespace fa

namespace fa::course {

const std::vector<CourseStage>& stages() {
  static const std::vector<CourseStage> all = {
      {1, "naive", "stage1_naive", "attention.cpp", "CPU", {0, 0}, stage1_stage},
      {2,
       "online softmax",
       "stage2_online_softmax_cpu",
       "attention.cpp",
       "CPU",
       {30, 8},
       stage2_stage},
      {3, "tiled", "stage3_tiled_cpu", "attention.cpp", "CPU", {45, 0}, stage3_stage},
  };
  return all;
}

const CourseStage& stage_by_number(int number) {
  for (const CourseStage& stage : stages())
    if (stage.number == number) return stage;
  throw Refused(fmt::format(
      "stage {}: must be from {} to {}", number, stages().front().number, stages().back().number));
}

}  // namespace fa::course
