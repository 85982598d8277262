// The step diff as people read it.
#pragma once

#include <filesystem>
#include <string>

namespace fa::course {

/// What changed from stage `before` to stage `after`, region by region, then git's totals beside
/// the budget. With colour for a terminal, or without.
std::string diff_text(const std::filesystem::path& root, int before, int after, bool colour);

}  // namespace fa::course
