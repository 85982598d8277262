// The executable @FA_NAME@. Generated from common/harness/stage_main.in.cpp.
#include "common/harness/main.hpp"

namespace fa {
Stage @FA_NAMESPACE@_stage();
@FA_DECLARE_PREVIOUS@
}  // namespace fa

int main(int argc, char** argv) {
  return fa::stage_main(argc, argv, fa::@FA_NAMESPACE@_stage(), @FA_PREVIOUS_STAGE@);
}
