// The step diff as people read it.
#pragma once

#include <filesystem>
#include <string>

namespace fa::course {

/// What changed from stage or step `before` to `after` (labels, as stage_by_label takes them), region by region, then git's totals beside
/// the budget. With colour for a terminal, or without.
std::string diff_text(const std::filesystem::path& root,
                      const std::string& before,
                      const std::string& after,
                      bool colour);

}  // namespace fa::course
