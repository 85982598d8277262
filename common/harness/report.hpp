// What a run found out, as text for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/harness/compare.hpp"
#include "common/harness/plan.hpp"
#include "common/harness/run.hpp"

namespace fa {

/// The stage before, and how far the two outputs lie apart.
struct PreviousFacts {
  int number = 0;
  std::string name;
  std::string step;   // "5a"; empty: a stage without steps
  std::string label;  // "stage 4", "step 5a"
  PreviousRun run;
  Sample compared;
  Comparison difference;
};

/// All that is known after a run.
struct Facts {
  int number = 0;
  std::string name;   // "stage1_naive"
  std::string title;  // "naive"
  std::string step;   // "5a"; empty: a stage without steps
  std::string adds;   // what the step adds to the one before
  Problem problem;
  std::string input;  // "layer.safetensors", "normal, seed 1"
  int threads = 1;
  Index tasks = 1;  // pieces that the work is split into; fewer than threads leave some idle
  Tile tile;        // {0, 0}: the stage has none
  Timing timing;
  Cost cost;  // by formula
  Sample compared;
  OracleCheck oracle;
  std::optional<PreviousFacts> previous;
  std::string output;  // the file that was written; empty: none
  std::vector<std::string> notes;

  bool right() const { return failure().empty(); }
  /// One line: what is wrong, where, got and expected. Empty when all is right.
  std::string failure() const;
  double gflop_per_s() const;
};

/// A page for a terminal; the last line begins with RIGHT or WRONG.
std::string text_report(const Facts& facts);

/// The same for all steps of a stage on one input: a table with a line a step. `left_out`: the labels of
/// those that don't take it.
std::string ladder_text(const std::vector<Facts>& steps, const std::vector<std::string>& left_out);

/// A column of that table, of runs in the emulator: the sum of its counts with these names.
struct CountColumn {
  const char* head;
  std::vector<std::string> names;
};
const std::vector<CountColumn>& count_columns();

/// {"steps": [what json_report says of each], "right": …}
std::string ladder_json(const std::vector<Facts>& steps, const std::vector<std::string>& left_out);

/// One JSON object on one line; what the stage and the one before are has "step" where they are steps.
/// Times are in seconds, memory and traffic in bytes, a window without
/// bound is -1, a tile is null where there is none, and so is the speed of a run in the emulator.
/// Numbers that JSON can't hold are the strings "nan", "inf" and "-inf".
std::string json_report(const Facts& facts);

}  // namespace fa
