#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/harness/report.hpp"
#include "common/harness/units.hpp"

namespace fa {

namespace {

/// "  time       12.3 ms             median of 9 runs after a warm-up"
std::string line(const std::string& label, const std::string& fact, const std::string& comment) {
  return fmt::format("  {:10} {:18}  {}\n", label, fact, comment);
}

std::string problem_text(const Problem& p) {
  std::string text = fmt::format("B {}, H {}", p.B, p.Hq);
  if (p.Hkv != p.Hq) text += fmt::format(" on {} KV head{}", p.Hkv, p.Hkv == 1 ? "" : "s");
  text += p.Nq == p.Nkv ? fmt::format(", N {}", p.Nq)
                        : fmt::format(", {} queries, {} keys", p.Nq, p.Nkv);
  text += fmt::format(", d {}, {}", p.d, name_of(p.dtype));
  if (p.causal) text += ", causal";
  if (p.window_left >= 0 || p.window_right >= 0)
    text += fmt::format(", window {},{}", p.window_left, p.window_right);
  return text + fmt::format(", scale {:g}", p.scale);
}

std::string device_text(const Facts& f) {
  if (!f.timing.facts.device.empty()) return f.timing.facts.device;
  std::string text = fmt::format("CPU, {} thread{}", f.threads, f.threads == 1 ? "" : "s");
  if (f.tasks < f.threads)
    text += fmt::format(
        ", {} with work (a {} each)", f.tasks, f.tile.Br > 0 ? "tile of queries" : "head");
  if (f.tile.Br > 0) text += fmt::format(", tiles of {} queries by {} keys", f.tile.Br, f.tile.Bc);
  return text;
}

std::string runs_text(const Timing& timing) {
  if (timing.facts.emulated) return "the emulator's own, which says nothing of a GPU's";
  if (!timing.warmed_up) return "one run, without a warm-up";
  const std::size_t runs = timing.seconds.size();
  return runs == 1 ? "one run after a warm-up"
                   : fmt::format("median of {} runs after a warm-up", runs);
}

/// "at worst 87 % of what is allowed: 0.00046 of 0.00053 at O[b=0 h=5 i=1 x=18]".
std::string share_text(const Comparison& c, const std::string& allowed) {
  if (c.compared == 0) return "nothing to compare";
  std::string text;
  if (c.wrong > 0) {
    text = fmt::format("{} of {} elements wrong", count_text(c.wrong), count_text(c.compared));
  } else if (c.max_tolerance > 0) {
    const double error = std::abs(c.worst.got - c.worst.expected);
    text = fmt::format("at worst {:.2g} % of {}: {:.2g} of {:.2g} at {}",
                       100 * error / c.max_tolerance,
                       allowed,
                       error,
                       c.max_tolerance,
                       name_of(c.worst));
  }
  if (c.excused > 0)
    text += fmt::format("; {} NaN or infinite, as the input allows", count_text(c.excused));
  return text;
}

std::string error_text(const Comparison& c) { return fmt::format("error {:.2g}", c.max_error); }

std::string oracle_text(const Facts& f) {
  const OracleCheck& check = f.oracle;
  std::string text =
      line("oracle", check.ok() ? "right" : "WRONG", describe(f.compared, f.problem.Nq));
  text += line("  O", error_text(check.O), share_text(check.O, "what is allowed"));
  text += line("  LSE", error_text(check.LSE), share_text(check.LSE, "what is allowed"));
  if (check.rule.applies)
    text += line("  16 bits",
                 fmt::format("error {:.2g}", check.rule.max_error),
                 fmt::format("at most {:.2g}: twice the definition's with P and O in {}, + 1e-5",
                             check.rule.allowed,
                             name_of(f.problem.dtype)));
  return text;
}

/// How much faster or slower than the stage before.
std::string speed_text(const Facts& f, double before, double now) {
  const std::string who = f.step.empty() ? "this stage" : "this step";
  const double ratio = std::max(before / now, now / before);
  if (ratio < 1.05) return who + " is about as fast";
  return fmt::format(
      before > now ? "{} is {:.{}f} times as fast" : "{} takes {:.{}f} times as long",
      who,
      ratio,
      ratio < 9.95 ? 1 : 0);
}

std::string previous_text(const Facts& f) {
  if (!f.previous) return "";
  const PreviousFacts& before = *f.previous;
  const double own = f.timing.median(), its = before.run.timing.median();
  std::string comment = describe(before.compared, f.problem.Nq);
  if (before.run.all && own > 0 && its > 0 && !f.timing.facts.emulated) {
    comment = fmt::format("took {} on the same input: ", seconds_text(its));
    comment += speed_text(f, its, own);
  }
  std::string text = line(before.label, before.difference.ok() ? "agrees" : "DIFFERS", comment);
  return text + line("  O, LSE",
                     fmt::format("difference {:.2g}", before.difference.max_error),
                     share_text(before.difference, "both tolerances"));
}

/// The lines that say what was computed from what, and where.
std::string input_text(const Facts& f) {
  return fmt::format("  {:10} {}\n", "problem", problem_text(f.problem)) +
         fmt::format("  {:10} {}\n", "input", one_line(f.input)) +
         fmt::format("  {:10} {}\n", "device", device_text(f));
}

/// The sum of the emulator's counts with these names.
std::string counted(const Facts& f, const std::vector<std::string>& names) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : f.timing.facts.counts)
    if (std::find(names.begin(), names.end(), name) != names.end()) sum += count;
  return short_count(sum);
}

/// What the ladder's table has between a step's name and its error.
struct Column {
  std::string head;
  std::function<std::string(const Facts&)> cell;
};

std::vector<Column> timed_columns() {
  return {{"time", [](const Facts& f) { return seconds_text(f.timing.median()); }},
          {"TFLOP/s", [](const Facts& f) { return fmt::format("{:.3g}", f.gflop_per_s() / 1e3); }},
          {"gain", [](const Facts& f) {
             if (!f.previous || !f.previous->run.all || f.timing.median() <= 0)
               return std::string();
             return fmt::format("x{:.2f}", f.previous->run.timing.median() / f.timing.median());
           }}};
}

std::vector<Column> counted_columns() {
  std::vector<Column> columns;
  for (const CountColumn& column : count_columns())
    columns.push_back(
        {column.head, [&column](const Facts& f) { return counted(f, column.names); }});
  return columns;
}

}  // namespace

const std::vector<CountColumn>& count_columns() {
  static const std::vector<CountColumn> columns = {
      {"sectors",
       {"global_load_sectors",
        "global_store_sectors",
        "async_copy_sectors",
        "tma_sectors",
        "tma_store_sectors"}},
      {"wavefronts",
       {"shared_load_wavefronts",
        "shared_store_wavefronts",
        "ldmatrix_wavefronts",
        "async_copy_wavefronts"}},
      {"conflicts",
       {"shared_load_conflicts",
        "shared_store_conflicts",
        "ldmatrix_conflicts",
        "async_copy_conflicts"}},
      {"ldmatrix", {"ldmatrix_requests"}},
      {"mma", {"mma"}},
      {"barriers", {"block_barriers"}},
  };
  return columns;
}

std::string ladder_text(const std::vector<Facts>& steps, const std::vector<std::string>& left_out) {
  const Facts& first = steps.front();
  const bool emulated = first.timing.facts.emulated;
  const std::vector<Column> columns = emulated ? counted_columns() : timed_columns();
  std::string text =
      fmt::format("Stage {}: all steps on one input\n\n", first.number) + input_text(first);
  if (!left_out.empty())
    text += fmt::format("  {:10} steps {}: they don't take this d, or not on this device\n",
                        "left out",
                        fmt::join(left_out, ", "));
  text += fmt::format("\n  {:4}  {:22}", "step", "what it adds");
  for (const Column& column : columns) text += fmt::format("  {:>10}", column.head);
  text += "    error\n";
  std::string failures;
  for (const Facts& f : steps) {
    text += fmt::format("  {:4}  {:22}", f.step, f.adds);
    for (const Column& column : columns) text += fmt::format("  {:>10}", column.cell(f));
    text += fmt::format("  {:7.1e}{}\n", f.oracle.O.max_error, f.right() ? "" : "  WRONG");
    if (!f.right()) failures += fmt::format("\nstep {}: {}", f.step, f.failure());
  }
  if (emulated)
    text +=
        "\nCounted by the emulator, over the whole run: 32-byte sectors of global memory; cycles "
        "of\n"
        "the shared memory's banks, and how many of them conflicts added; ldmatrix and mma by "
        "warp;\n"
        "barriers by block.";
  else
    text += fmt::format(
        "\ntime: {}, the steps in turn. gain: how many times as fast as the line before, the "
        "first\n"
        "line as stage 4.",
        runs_text(first.timing));
  text += " error: the largest of O against the float64 oracle.\n";
  return text + (failures.empty() ? "\nRIGHT\n" : fmt::format("\nWRONG:{}\n", failures));
}

std::string text_report(const Facts& f) {
  const Problem& p = f.problem;
  std::string text = fmt::format("Stage {}: {}\n\n", f.number, f.title) + input_text(f);
  text += line("time", seconds_text(f.timing.median()), runs_text(f.timing));
  if (!f.timing.facts.emulated)
    text += line("speed",
                 rate_text(f.gflop_per_s()),
                 fmt::format("4 d FLOP for each of {} visible (query, key) pairs",
                             count_text(static_cast<Index>(p.visible_pairs()))));
  text += line("memory",
               bytes_text(static_cast<double>(f.timing.extra_bytes)),
               "beside Q, K, V, O: the most in use at once, counted");
  const bool counted = f.timing.facts.global_bytes >= 0;
  text += line("traffic",
               bytes_text(counted ? f.timing.facts.global_bytes : f.cost.traffic_bytes),
               counted ? fmt::format("from and to global memory, counted; by formula {}",
                                     bytes_text(f.cost.traffic_bytes))
                       : "that the loops ask for, by formula, caches ignored");
  text += oracle_text(f);
  text += previous_text(f);
  if (!f.output.empty()) text += fmt::format("  {:10} {}\n", "output", one_line(f.output));
  text += f.right() ? "\nRIGHT\n" : fmt::format("\nWRONG: {}\n", f.failure());
  return text;
}

}  // namespace fa
