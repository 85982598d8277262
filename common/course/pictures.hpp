// The tour's pictures, drawn by common/bench/plot.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/course/record.hpp"

namespace fa::course {

struct Pictures {
  std::vector<std::string> lines;  // what there is to see, a line each: file and what it shows
  std::string skipped;             // why there are none; empty when there are
};

/// Draws attention maps of the early and the deep layer, with weights from the last CPU stage, and
/// time and memory over N, measured now. Files go to <build>/tour.
Pictures draw_pictures(const Places& places);

}  // namespace fa::course
