// The emulator's report on kernels with a planted mistake (common/simt/planted.cu).
#pragma once

#include <string>
#include <vector>

namespace fa::course {

std::vector<std::string> fault_names();

/// What the emulator says of that kernel, and what became of its output. Throws Refused for a name
/// that is not among fault_names().
std::string fault_text(const std::string& name);

}  // namespace fa::course
