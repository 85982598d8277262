#include "common/course/stages.hpp"

#include <fmt/format.h>

#include "common/cuda/runtime.hpp"

namespace fa {
Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
Stage stage4_stage();
std::vector<Stage> stage5_steps();
}  // namespace fa

namespace fa::course {

// How much may be new, in a table: stages, then the steps of stage 5. Each is measured against the one
// before it; the first step against stage 4.
namespace {
const Budget kStageBudgets[] = {{0, 0}, {30, 8}, {45, 0}, {120, 0}};
const Budget kFirstStepBudget = {120, 0};
const Budget kStepBudget = {30, 8};
}  // namespace

const std::vector<CourseStage>& steps() {
  static const std::vector<CourseStage> all = [] {
    std::vector<CourseStage> made;
    for (const fa::Stage& stage : stage5_steps()) {
      const std::size_t slash = stage.source.find('/');
      made.push_back({stage.number,
                      stage.step,
                      stage.adds,
                      stage.source.substr(0, slash),
                      stage.source.substr(slash + 1),
                      true,
                      made.empty() ? kFirstStepBudget : kStepBudget,
                      [stage] { return stage; }});
    }
    return made;
  }();
  return all;
}

const std::vector<CourseStage>& stages() {
  static const std::vector<CourseStage> all = [] {
    const Budget* budget = kStageBudgets;
    const std::string cpu = "attention.cpp";
    std::vector<CourseStage> made = {
        {1, "", "naive", "stage1_naive", cpu, false, budget[0], stage1_stage},
        {2, "", "online softmax", "stage2_online_softmax_cpu", cpu, false, budget[1], stage2_stage},
        {3, "", "tiled", "stage3_tiled_cpu", cpu, false, budget[2], stage3_stage},
        {4, "", "simple CUDA", "stage4_simple_cuda", "kernel.cuh", true, budget[3], stage4_stage},
    };
    made.push_back(steps().back());
    made.back().title = "mma pipeline";
    return made;
  }();
  return all;
}

const CourseStage* before(const CourseStage& stage) {
  const auto& all = stage.step.empty() ? stages() : steps();
  const CourseStage* last = stage.step.empty() ? nullptr : &stage_by_number(stage.number - 1);
  for (const CourseStage& each : all) {
    if (each.number == stage.number && each.step == stage.step) return last;
    last = &each;
  }
  return nullptr;
}

std::string CourseStage::label() const {
  return step.empty() ? std::to_string(number) : fmt::format("{}.{}", number, step);
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

const CourseStage& stage_by_label(const std::string& label) {
  for (const CourseStage& stage : stages())
    if (label == std::to_string(stage.number)) return stage;
  std::string labels;
  for (const CourseStage& step : steps()) {
    if (label == step.label()) return step;
    labels += ", " + step.label();
  }
  throw Refused(fmt::format("stage {}: must be from {} to {}{}{}",
                            label,
                            stages().front().number,
                            stages().back().number,
                            labels.empty() ? "" : ", or one of stage 5's steps",
                            labels));
}

}  // namespace fa::course
