// Stage 3 with a flaw: what the harness must notice, and what it must survive.
//
// FA_FLAW says which: "O 17 nan" sets element 17 of O to NaN; "LSE 3 1e9" and any other number
// likewise. "unwritten", "guard", "no memory", "cannot run" and "exception" are in words. With "steps "
// before it the stage has two steps, of which only the second has the flaw.

#include <cstdlib>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>

#include "common/harness/main.hpp"

namespace fa {
Stage stage2_stage();
Stage stage3_stage();
}  // namespace fa

namespace {

const std::string kSteps = "steps ";

std::string given() {
  const char* text = std::getenv("FA_FLAW");
  return text == nullptr ? "" : text;
}

bool has_steps() { return given().compare(0, kSteps.size(), kSteps) == 0; }

std::string flaw() { return has_steps() ? given().substr(kSteps.size()) : given(); }

void set_element(const fa::Job& job, const std::string& where, fa::Index at, float value) {
  if (where == "LSE")
    job.LSE[at] = value;
  else
    fa::dispatch(job.problem.dtype, [&](auto zero) {
      using T = decltype(zero);
      static_cast<T*>(job.O.data)[at] = T(value);
    });
}

void spoil(const fa::Job& job) {
  std::istringstream words(flaw());
  std::string where, value;
  fa::Index at = 0;
  if (words >> where >> at >> value)
    set_element(job, where, at, std::strtof(value.c_str(), nullptr));
  if (flaw() == "guard") set_element(job, "O", -1, 0);
}

}  // namespace

int main(int argc, char** argv) {
  fa::Stage stage = fa::stage3_stage();
  stage.name = "spoiled_stage";
  stage.run = [run = stage.run](const fa::Job& job) {
    if (flaw() == "no memory") throw std::bad_alloc();
    if (flaw() == "cannot run") throw fa::CannotRun("no such device: stage 2 runs anywhere");
    if (flaw() == "exception") throw std::runtime_error("two\nlines");
    if (flaw() != "unwritten") run(job);
    spoil(job);
    return fa::RunFacts{};
  };
  std::vector<fa::Stage> steps = {stage};
  if (has_steps()) {
    steps.insert(steps.begin(), fa::stage3_stage());
    for (std::size_t s = 0; s < steps.size(); ++s) {
      steps[s].name = "spoiled_stage";
      steps[s].step = std::to_string(s + 1);
      steps[s].adds = "nothing";
    }
  }
  return fa::stage_main(argc, argv, steps, fa::stage2_stage());
}
