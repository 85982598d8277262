// The steps of stage @FA_NUMBER@ in order. Generated from common/harness/steps.in.cpp.
#include "common/harness/stage.hpp"

namespace fa {

@FA_DECLARE_STEPS@
std::vector<Stage> stage@FA_NUMBER@_steps();
Stage stage@FA_NUMBER@_stage();

std::vector<Stage> stage@FA_NUMBER@_steps() {
  return {
@FA_STEPS@  };
}

/// The default: the last one.
Stage stage@FA_NUMBER@_stage() { return stage@FA_NUMBER@_steps().back(); }

}  // namespace fa
