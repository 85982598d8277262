// A job in the emulator: the kernel's counts and faults become facts of the run.
#pragma once

#include <functional>

#include "common/harness/stage.hpp"

namespace fa {

/// Calls `attention`, which launches a kernel of the emulator, with all checks on, or as the
/// options of a session around it say.
RunFacts in_emulator(const Job& job, const std::function<void()>& attention);

}  // namespace fa
