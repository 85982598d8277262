// "did you mean …?"
#pragma once

#include <string>
#include <vector>

namespace fa {

/// The name that a mistyped one was probably meant to be; empty when none is near. Dashes in front
/// and upper or lower case don't count.
std::string nearest(const std::string& typed, const std::vector<std::string>& names);

}  // namespace fa
