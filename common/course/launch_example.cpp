#include "common/course/launch_example.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/course/table.hpp"
#include "common/harness/inputs.hpp"
#include "common/harness/units.hpp"

namespace fa::course {

namespace {

constexpr int kN = 64, kD = 64, kBr = 64, kBc = 32;
constexpr int kQueries = 4, kAcross = 8;  // a thread's queries; threads that share them
constexpr int kThreads = kBr / kQueries * kAcross, kWarps = kThreads / 32, kTiles = kN / kBc;
constexpr int kKeysEach = kBc / kAcross, kColumnsEach = kD / kAcross;

/// "1, 17, 33, 49", or with "…" where there are more than four.
std::string every(int first, int step, int count) {
  std::string text = std::to_string(first);
  for (int n = 1; n < std::min(count, 4); ++n) text += fmt::format(", {}", first + n * step);
  if (count > 4) text += fmt::format(", … {}", first + (count - 1) * step);
  return text;
}

std::string ownership() {
  const int thread = 42, tx = thread % kAcross, ty = thread / kAcross, apart = kBr / kQueries;
  return fmt::format(
      "One head, {} queries and {} keys, d = {}, float32: one block of {} threads, {} tiles of {} "
      "keys.\n"
      "Thread {} has tx = {} % {} = {} and ty = {} / {} = {}. Its own are\n"
      "  queries          {}\n"
      "  keys of a tile   {}\n"
      "  columns of O     {}\n\n",
      kN,
      kN,
      kD,
      kThreads,
      kTiles,
      kBc,
      thread,
      thread,
      kAcross,
      tx,
      thread,
      kAcross,
      ty,
      every(ty, apart, kQueries),
      every(tx, kAcross, kKeysEach),
      every(tx, kAcross, kColumnsEach));
}

/// A count by hand: what, from which numbers, and the emulator's name for it.
struct ByHand {
  std::string what, from;
  int count;
  std::string counter;
};

std::vector<ByHand> by_hand() {
  const int scores = kD * (kQueries + kKeysEach), pv = kBc * (kQueries + kColumnsEach);
  return {
      {"global bytes loaded",
       fmt::format("Q, K and V once each: 3·{}·{}·4", kN, kD),
       3 * kN * kD * 4,
       "global_load_bytes"},
      {"… in 32-byte sectors",
       "neighbours load neighbours: no byte in vain",
       3 * kN * kD * 4 / 32,
       "global_load_sectors"},
      {"global bytes stored",
       fmt::format("O and LSE: {}·{}·4 + {}·4", kN, kD, kN),
       kN * kD * 4 + kN * 4,
       "global_store_bytes"},
      {"shared loads, by warp",
       fmt::format("{} tiles · {} warps · ({}·({}+{}) for S, {}·({}+{}) for O)",
                   kTiles,
                   kWarps,
                   kD,
                   kQueries,
                   kKeysEach,
                   kBc,
                   kQueries,
                   kColumnsEach),
       kTiles * kWarps * (scores + pv),
       "shared_load_requests"},
      {"… in cycles of the banks",
       "as many: no bank is asked twice",
       kTiles * kWarps * (scores + pv),
       "shared_load_wavefronts"},
      {"shared stores, by warp",
       fmt::format("3·{}·{}/32 for the tiles, {}·{}·{}·{} for P",
                   kN,
                   kD,
                   kTiles,
                   kWarps,
                   kQueries,
                   kKeysEach),
       3 * kN * kD / 32 + kTiles * kWarps * kQueries * kKeysEach,
       "shared_store_requests"},
      {"… in cycles of the banks",
       fmt::format("4 for each of P: 4 rows of {} floats overlap", kBc + 1),
       3 * kN * kD / 32 + 4 * kTiles * kWarps * kQueries * kKeysEach,
       "shared_store_wavefronts"},
      {"exponentials",
       fmt::format(
           "{}·{} for P, {}·{} for alpha behind the first tile", kN, kN, kThreads, kQueries),
       kN * kN + kThreads * kQueries * (kTiles - 1),
       "exponentials"},
      {"shuffles, by warp",
       fmt::format("3 for each of {} rows, {} tiles and the final sum of l", kQueries, kTiles),
       3 * kQueries * kWarps * (kTiles + 1),
       "shuffles"},
      {"barriers of the block", "2 a tile", 2 * kTiles, "block_barriers"},
  };
}

}  // namespace

WorkedExample launch_example(const CourseStage& stage) {
  Problem p;
  p.Nq = p.Nkv = kN;
  p.d = kD;
  p.scale = default_scale(kD);
  const Inputs inputs = make_inputs(p, "normal", 1);
  Output output(p);
  Job job;
  job.problem = p;
  job.Q = inputs.Q.view();
  job.K = inputs.K.view();
  job.V = inputs.V.view();
  job.O = output.O();
  job.LSE = output.LSE();
  job.threads = 1;
  job.device = Device::simt;
  const RunFacts facts = stage.stage().run(job);
  const auto counted = [&](const std::string& name) {
    for (const auto& [known, count] : facts.counts)
      if (known == name) return static_cast<Index>(count);
    return Index{-1};
  };

  WorkedExample example;
  example.failure = facts.faults;
  Table table{{"", "from", "by hand", "emulator"}, {}, {true, true, false, false}};
  for (const ByHand& one : by_hand()) {
    const Index count = counted(one.counter);
    table.rows.push_back({one.what, one.from, count_text(one.count), count_text(count)});
    if (count != one.count)
      example.failure +=
          fmt::format("{}: by hand {}, the emulator counts {}\n", one.what, one.count, count);
  }
  const int multiply_adds = 2 * kN * kN * kD / 32;
  const Index loads = counted("shared_load_requests");
  example.text =
      ownership() + table.text() +
      fmt::format(
          "\n{} multiply-adds by warp (2·{}·{}·{}/32) on {} shared loads: {:.2f} on each.\n",
          count_text(multiply_adds),
          kN,
          kN,
          kD,
          count_text(loads),
          double(multiply_adds) / double(loads));
  return example;
}

}  // namespace fa::course
