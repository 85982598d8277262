#include "common/course/stages.hpp"

#include <fmt/format.h>

#include "common/cuda/runtime.hpp"

namespace fa {
Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
Stage stage4_stage();
}  // namespace fa

namespace fa::course {

const std::vector<CourseStage>& stages() {
  static const std::vector<CourseStage> all = {
      {1, "naive", "stage1_naive", "attention.cpp", false, {0, 0}, stage1_stage},
      {2,
       "online softmax",
       "stage2_online_softmax_cpu",
       "attention.cpp",
       false,
       {30, 8},
       stage2_stage},
      {3, "tiled", "stage3_tiled_cpu", "attention.cpp", false, {45, 0}, stage3_stage},
      {4, "simple CUDA", "stage4_simple_cuda", "kernel.cuh", true, {120, 0}, stage4_stage},
  };
  return all;
}

std::string CourseStage::device_here() const {
  if (!on_device) return "CPU";
  return cuda::gpu().usable ? short_device(cuda::gpu().text()) : "simt";
}

bool CourseStage::can_be_timed() const { return !on_device || cuda::gpu().usable; }

std::string short_device(const std::string& device) {
  constexpr std::size_t kLongest = 12;
  if (device == "cpu") return "CPU";
  if (device.rfind("emulator", 0) == 0) return "simt";
  std::string name = device.substr(0, device.find(" (cc "));
  for (const std::string maker : {"NVIDIA ", "GeForce ", "Tesla "})
    if (name.rfind(maker, 0) == 0) name.erase(0, maker.size());
  return name.empty() || name.size() > kLongest ? "GPU" : name;
}

const CourseStage& stage_by_number(int number) {
  for (const CourseStage& stage : stages())
    if (stage.number == number) return stage;
  throw Refused(fmt::format(
      "stage {}: must be from {} to {}", number, stages().front().number, stages().back().number));
}

}  // namespace fa::course
