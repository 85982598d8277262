#include "common/harness/report.hpp"

#include <fmt/format.h>

namespace fa {

std::string Facts::failure() const {
  // What the emulator saw is the cause of what the oracle sees.
  if (!timing.facts.faults.empty()) return timing.facts.faults;
  if (!oracle.ok()) return oracle.failure();
  if (!previous || previous->difference.ok()) return "";
  const Comparison& c = previous->difference;
  return fmt::format(
      "{} of {} elements differ from {}'s by more than both tolerances together; first {}: "
      "got {:g}, {} has {:g}",
      c.wrong,
      c.compared,
      previous->label,
      name_of(c.first_wrong),
      c.first_wrong.got,
      previous->label,
      c.first_wrong.expected);
}

double Facts::gflop_per_s() const {
  const double seconds = timing.median();
  return seconds > 0 ? problem.flop() / seconds / 1e9 : 0;
}

}  // namespace fa
