// Pages whose excerpts, outputs and numbers are filled in by a program, so that none goes stale.
//
//   <!-- fill: KIND arguments -->
//   generated lines
//   <!-- end fill -->
//
// or both markers in one line, with a number between them. The kinds:
//
//   region FILE NAME …                  those regions of a source, without markers
//   diff A B                            what ./learn diff A B prints
//   run ./learn WORDS                   the command and what it prints (example, fault, diff)
//   recorded run RESULTS                a command and what it printed when it was recorded
//   costs RESULTS SHAPE STAGE …         a table, predicted and measured, from recorded results
//   rows RESULTS COLUMN[=FORMAT] …      a table of the record's "rows"; RESULTS/LIST: of its "LIST"
//   result RESULTS FORMAT KEY [/ KEY]   one recorded number, or the quotient of two
//   where RESULTS                       the machine, day and command of the record
//
// RESULTS is a file in notes/results, without its ending. While there is none, what needs it is
// stale and stays as it is. Markers inside a code fence are text like any other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fa::course {

/// What a page's filled parts should hold, and what they do hold.
struct FilledPage {
  std::string text;                  // the page with every part generated anew
  std::vector<std::string> stale;    // "file:line: what differs" for each part that was not current
  std::vector<std::string> waiting;  // the same for each part whose results nobody has recorded yet
};

/// Generates every part of a page. `name` is for messages. Throws MarkerError for markers that
/// don't fit together, and for a part that can't be generated.
FilledPage fill_page(const std::filesystem::path& root,
                     const std::string& name,
                     const std::string& text);

/// The pages: notes/*.md, README.md and every stage's README.md and hints.md, as far as they
/// exist; relative to the root.
std::vector<std::filesystem::path> pages(const std::filesystem::path& root);

}  // namespace fa::course
