// The worked example of stages 1 to 3: one query, two tiles of two keys, d = 2, small enough to do
// by hand. Stage 4's is a small launch, stage 5's a warp's registers.
#pragma once

#include <string>

namespace fa::course {

struct WorkedExample {
  std::string text;     // what is printed
  std::string failure;  // empty when the stage gives the numbers of the text
};

/// The example as stage `number` goes through it (stage 4: launch_example.hpp, stage 5: fragment_example.hpp). The stage's own
/// code runs on the same numbers: after t keys its m, l and o are those of a call with the first t
/// keys alone, which O and LSE give back: l = exp(LSE − m), o = O l. Throws Refused for another
/// stage.
WorkedExample worked_example(int number);

}  // namespace fa::course
