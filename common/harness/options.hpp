// The command line as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/stage.hpp"

namespace fa {

struct Window {
  Index left = -1;
  Index right = -1;
};

/// "L,R", two integers from −1 (no bound) to 2^48; nothing when it is something else.
std::optional<Window> parse_window(const std::string& text);

/// What the user asked for. Fields that stay empty were not given.
struct Options {
  // Q, K and V: from files …
  std::string input;    // .safetensors
  std::string q, k, v;  // .npy, all three or none
  // … or made from a shape, a pattern and a seed.
  Index B = 1;
  Index Hq = 1;
  Index Hkv = 1;
  Index Nq = 1024;
  Index Nkv = 1024;
  Index d = 64;
  std::string pattern = "normal";
  std::uint64_t seed = 1;
  std::optional<DType> dtype;  // files are converted to it

  // These win over what a file says.
  std::optional<bool> causal;
  std::optional<Window> window;
  std::optional<float> scale;

  Tile tile;        // 0: the stage's default
  int threads = 0;  // 0: all cores
  int repeats = 0;  // 0: as many as fit in two seconds
  Device device = Device::automatic;
  std::optional<std::size_t> step;  // the place of the one that was asked for
  bool ladder = false;              // all steps, one after the other
  std::string output;
  bool json = false;

  /// What --help or --list-patterns prints. Not empty: nothing is to be run.
  std::string answer;

  bool from_files() const { return !input.empty() || !q.empty(); }
};

/// Parses and checks everything that needs no file. Throws Refused with one line: the flag, its
/// value, what is allowed. `steps`: the stage's, or the stage alone.
Options parse_options(int argc, const char* const* argv, const std::vector<Stage>& steps);

}  // namespace fa
