// Q, K and V from files.
#pragma once

#include <string>
#include <vector>

#include "common/harness/inputs.hpp"
#include "common/harness/options.hpp"

namespace fa {

/// The problem that the shape flags describe, for input that is made. Its type, where --dtype says
/// none, is the first that the stage takes.
Problem problem_from(const Options& options, const Stage& stage);

/// Reads the files that the options name. q, k and v must agree: one type, one B, one d, and k and
/// v of one shape. With --dtype they are converted, and without it where the stage doesn't take the
/// file's type: to the first that it takes. Causal and scale come from the options, else
/// from the metadata of a .safetensors file, else the mask is none and the scale 1/√d.
///
/// Appends to `notes` what was converted. Throws Refused with one line that names file, found and
/// expected.
Inputs load(const Options& options, const Stage& stage, std::vector<std::string>& notes);

}  // namespace fa
