// Stage 4's worked example: a launch of one block, its work counted by hand and by the emulator.
#pragma once

#include "common/course/example.hpp"
#include "common/course/stages.hpp"

namespace fa::course {

/// 64 queries, 64 keys, d = 64, float32: one block, two tiles of keys. Who owns what, then each
/// count from the shape of the work beside the one that the emulator took.
WorkedExample launch_example(const CourseStage& stage);

}  // namespace fa::course
