// Catch2, version 3 or 2, whichever is installed. The text matcher has version 3's name.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers
#ifdef CATCH_CONFIG_EXTERNAL_INTERFACES
namespace Catch {
using EventListenerBase = TestEventListenerBase;
}
#endif
#endif
