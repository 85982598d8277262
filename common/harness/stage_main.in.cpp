// The executable @FA_NAME@. Generated from common/harness/stage_main.in.cpp.
#include "common/harness/main.hpp"

namespace fa {
@FA_DECLARE_STAGES@
@FA_DECLARE_PREVIOUS@
}  // namespace fa

int main(int argc, char** argv) {
  return fa::stage_main(argc, argv, @FA_STAGES@, @FA_PREVIOUS_STAGE@);
}
