// Regions: the named parts of a stage's source, between the comments
//
//   //# region rescale  what was summed under m_old is brought under m
//     …
//   //# endregion
//
// Every stage has the same names in the same order, so that one part can be shown by itself and
// compared between stages. Where a kernel does two things in one loop, a region may be inside another.
// Other comments that begin with //# or //| belong to the exercises; they
// are no regions, and they are left out of what readers see.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace fa::course {

struct Region {
  std::string name;                // "rescale"
  std::string caption;             // the rest of the marker's line; may be empty
  int first_line = 0;              // of the text between the markers, from 1
  int last_line = 0;               // first_line − 1 when there is none
  std::vector<std::string> lines;  // the text, markers left out, indented as in the file
  std::vector<std::string> own;    // the same without the lines of regions inside it
  std::string inside;              // the region that it is inside of; empty: none
};

/// Markers that don't fit together. what() is "file:line: what is wrong".
struct MarkerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Is the line a marker (//# … or //| …, after any indentation)?
bool is_marker(const std::string& line);

/// The text without its marker lines.
std::string strip_markers(const std::string& text);

/// The regions of a source text, in its order. `file` is for messages only. Throws MarkerError for
/// a region that is not closed, has no name or a name twice, and for an endregion without a region.
std::vector<Region> parse_regions(const std::string& text, const std::string& file);

/// The region called `name`. Throws MarkerError, listing the names there are.
const Region& find_region(const std::vector<Region>& regions,
                          const std::string& name,
                          const std::string& file);

/// The lines outside every region, markers left out.
std::vector<std::string> lines_between_regions(const std::string& text);

}  // namespace fa::course
