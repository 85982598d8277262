#include "common/course/fault.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/attention/problem.hpp"
#include "common/simt/planted.hpp"

namespace fa::course {

namespace {

std::string output_text(const simt::planted::Planted& run) {
  return fmt::format("{} of {} elements right", run.right, run.of);
}

}  // namespace

std::vector<std::string> fault_names() { return {"no_barrier", "tail", "no_wait"}; }

std::string fault_text(const std::string& name) {
  using namespace simt::planted;
  if (name == "no_wait") {
    const Planted late = no_wait(simt::Copies::late), early = no_wait(simt::Copies::early);
    std::string text = late.report.text() + "\n";
    text += fmt::format("output, if copies land at their wait:  {}\n", output_text(late));
    text += fmt::format("output, if copies land at once:        {}; the report {}\n",
                        output_text(early),
                        early.report.text() == late.report.text() ? "is the same" : "differs");
    return text;
  }
  if (name != "no_barrier" && name != "tail")
    throw Refused(
        fmt::format("fault '{}': must be one of {}", name, fmt::join(fault_names(), ", ")));
  const Planted run = name == "tail" ? tail() : no_barrier();
  return fmt::format("{}\noutput: {}\n", run.report.text(), output_text(run));
}

}  // namespace fa::course
