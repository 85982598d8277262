// The tour: every stage on a real model's Q, K and V, in one table, what to look at in each, and stage
// 5's steps in a table of their own.
#pragma once

#include <string>

#include "common/course/record.hpp"

namespace fa::course {

struct TourOptions {
  std::string input;  // empty: common/data's early layer
  bool json = false;
  bool pictures = true;
};

/// Returns an exit code: 1 if a stage is wrong, or a step.
int run_tour(const Places& places, const TourOptions& options);

}  // namespace fa::course
