// Stages are templates in .cpp files; this line at the end of each compiles them for every type.
#pragma once

#include "common/attention/types.hpp"

/// Explicitly instantiates the function template `f<T>` for float, float16 and bfloat16.
/// decltype spells the function's type, so the parameter list isn't repeated here.
#define FA_INSTANTIATE_FOR_EVERY_TYPE(f)                \
  template decltype(f<float>) f<float>;                 \
  template decltype(f<::fa::float16>) f<::fa::float16>; \
  template decltype(f<::fa::bfloat16>) f<::fa::bfloat16>;
