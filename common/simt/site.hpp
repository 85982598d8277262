// Where in the source something happens, in 32 bits.
#pragma once

#include <cstdint>
#include <string>

namespace fa::simt {

/// A file's number and a line: number << 20 | line. 0: unknown.
using SiteId = std::uint32_t;

/// The site of a file's line 0. The same file always has the same number.
SiteId site_of_file(const char* file);

/// "stage4_simple_cuda/kernel.cuh:71", below the repository's root.
std::string name_of_site(SiteId site);
inline int line_of_site(SiteId site) { return static_cast<int>(site & 0xfffff); }

}  // namespace fa::simt
