// How much memory this process can still get.
#pragma once

#include <optional>

namespace fa {

/// Bytes that can be taken without swapping or meeting the out-of-memory killer: the least of what
/// the machine has available, what the process's control group may still take, and its own limit
/// (ulimit -v). Empty where none of them is known.
std::optional<double> available_memory();

}  // namespace fa
