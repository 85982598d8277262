#include "common/harness/main.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "common/harness/load.hpp"
#include "common/harness/memory.hpp"
#include "common/harness/report.hpp"
#include "common/harness/units.hpp"
#include "common/io/output_file.hpp"
#include "common/io/safetensors.hpp"

namespace fa {

namespace {

void require_dtype(const Stage& stage, DType dtype) {
  std::string known;
  for (const DType can : stage.dtypes) {
    if (can == dtype) return;
    known += known.empty() ? name_of(can) : fmt::format(" or {}", name_of(can));
  }
  throw Refused(fmt::format("stage {} takes {}, not {} (--dtype {} converts)",
                            stage.number,
                            known,
                            name_of(dtype),
                            name_of(stage.dtypes.front())));
}

/// The rows of `expected` that belong to `queries`, all of which are among its own.
Expected selected(const Problem& p, const Expected& expected, const std::vector<Index>& queries) {
  Expected part;
  part.queries = queries;
  for (Index head = 0; head < p.B * p.Hq; ++head) {
    const std::size_t first = static_cast<std::size_t>(head) * expected.queries.size();
    for (std::size_t at = 0, q = 0; q < queries.size(); ++at)
      if (expected.queries[at] == queries[q]) {
        part.rows.push_back(expected.rows[first + at]);
        ++q;
      }
  }
  return part;
}

std::string input_text(const Options& options) {
  if (!options.input.empty()) return options.input;
  if (!options.q.empty()) return fmt::format("{}, {}, {}", options.q, options.k, options.v);
  return fmt::format("{}, seed {}", options.pattern, options.seed);
}

void write_output(OutputFile& file, const Facts& facts, const Output& output) {
  const Problem& p = facts.problem;
  write_safetensors(
      file,
      {{"o", output.O()}, {"lse", NamedArray(DType::float32, {p.B, p.Hq, p.Nq}, output.LSE())}},
      {{"stage", facts.name},
       {"causal", p.causal ? "true" : "false"},
       {"window", fmt::format("{},{}", p.window_left, p.window_right)},
       {"scale", fmt::format("{}", p.scale)}});
  file.commit();
}

PreviousFacts previous_facts(const Stage& stage, const Sample& compared) {
  return {stage.number, stage.name, stage.step, label_of(stage), {}, compared, {}};
}

PreviousFacts compare_with(const Stage& stage,
                           const Job& job,
                           const Plan& plan,
                           const Expected& expected,
                           const Output& output,
                           Leeway own,
                           int repeats) {
  Output its_output(job.problem);
  Job its_job = job;
  its_job.threads = plan.previous_threads;
  PreviousFacts before = previous_facts(stage, plan.oracle);
  before.run = run_previous(stage, its_job, plan.previous.queries, its_output, repeats);
  const bool part = !before.run.all && plan.oracle.all();
  if (part) before.compared = plan.previous;
  before.difference = check_against_previous(
      job.problem,
      part ? selected(job.problem, expected, plan.previous.queries) : expected,
      output,
      its_output,
      own,
      stage.leeway);
  return before;
}

/// The output may not take the place of what it was computed from, also not through a link.
void require_other_file(const Options& options) {
  for (const std::string& input : {options.input, options.q, options.k, options.v}) {
    std::error_code not_there;
    if (!input.empty() && std::filesystem::equivalent(input, options.output, not_there))
      throw Refused(fmt::format(
          "--output {}: is the input file {}, which would be lost", options.output, input));
  }
}

void print_note(const Stage& stage, const std::string& note) {
  fmt::print(stderr, "{}: note: {}\n", stage.name, one_line(note));
}

/// The stage's steps (or the stage alone), and the stage before.
struct Ladder {
  const std::vector<Stage>& steps;
  const std::optional<Stage>& previous;
};

/// The last of the steps before `end` that suits the problem and the device.
std::optional<Stage> last_that_suits(const Ladder& ladder,
                                     std::size_t end,
                                     Index d,
                                     Device device) {
  for (std::size_t s = end; s-- > 0;)
    if (suits(ladder.steps[s], d, device)) return ladder.steps[s];
  return std::nullopt;
}

/// The step that takes the most head dimensions: it knows best which the stage takes.
const Stage& most_general(const std::vector<Stage>& steps) {
  const auto count = [](const Stage& stage) {
    Index taken = 0;
    for (Index d = 1; d <= 512; ++d) taken += !stage.takes_d || stage.takes_d(d);
    return taken;
  };
  const Stage* most = &steps.front();
  for (const Stage& step : steps)
    if (count(step) >= count(*most)) most = &step;
  return *most;
}

/// A problem with its inputs, who is to solve it, and what else is to be done.
struct Prepared {
  Inputs inputs;
  Stage stage;                    // the step that was asked for, else the last that suits
  std::optional<Stage> previous;  // the step before that suits, else the stage before
  Plan plan;
  std::vector<std::string> notes;

  const Problem& problem() const { return inputs.problem; }
};

Prepared prepare(const Options& options, const Ladder& ladder) {
  const std::vector<Stage>& steps = ladder.steps;
  Prepared all;
  Problem p;
  if (options.from_files()) {
    all.inputs = load(options, steps.back(), all.notes);
    p = all.inputs.problem;
  } else {
    p = problem_from(options, steps.back());
    validate(p);
  }
  require_dtype(steps.back(), p.dtype);
  // Where none suits, one that takes as much as any says why.
  const std::optional<Stage> best = last_that_suits(ladder, steps.size(), p.d, options.device);
  all.stage = options.step ? steps[*options.step] : best.value_or(most_general(steps));
  std::size_t at = 0;
  while (steps[at].step != all.stage.step) ++at;
  all.previous = last_that_suits(ladder, at, p.d, options.device);
  if (!all.previous) all.previous = ladder.previous;
  all.plan =
      make_plan(p, options, all.stage, all.previous, options.from_files() ? 0 : bytes_of_inputs(p));
  if (!options.from_files()) all.inputs = make_inputs(p, options.pattern, options.seed);
  all.notes.insert(all.notes.end(), all.plan.notes.begin(), all.plan.notes.end());
  for (const std::string& note : all.notes) print_note(all.stage, note);
  return all;
}

Job job_of(const Options& options, const Prepared& all) {
  const Tensors tensors = all.inputs.view();
  Job job;
  job.problem = all.problem();
  job.Q = tensors.Q;
  job.K = tensors.K;
  job.V = tensors.V;
  job.tile = options.tile;
  job.threads = all.plan.threads;
  job.device = options.device;
  return job;
}

/// What is known before the stage has run.
Facts facts_of(const Stage& stage, const Options& options, const Prepared& all, const Job& job) {
  const Problem& p = all.problem();
  Facts facts;
  facts.number = stage.number;
  facts.name = stage.name;
  facts.title = stage.title;
  facts.step = stage.step;
  facts.adds = stage.adds;
  facts.problem = p;
  facts.input = input_text(options);
  facts.threads = all.plan.threads;
  facts.tile = stage.tile_for(p, options.tile);
  const Index rows = facts.tile.Br > 0 ? facts.tile.Br : std::max<Index>(p.Nq, 1);
  facts.tasks = p.B * p.Hq * ((p.Nq + rows - 1) / rows);
  facts.cost = stage.cost(job);
  facts.compared = all.plan.oracle;
  facts.notes = all.notes;
  return facts;
}

void note_of_run(const Stage& stage, Facts& facts) {
  if (facts.timing.facts.note.empty()) return;
  facts.notes.push_back(facts.timing.facts.note);
  print_note(stage, (stage.step.empty() ? "" : label_of(stage) + ": ") + facts.timing.facts.note);
}

ExitCode run_and_report(const Options& options, const Ladder& ladder) {
  std::optional<OutputFile> file;
  if (!options.output.empty()) {
    require_other_file(options);
    file.emplace(options.output);  // refused now, not after the run
  }

  const Prepared all = prepare(options, ladder);
  const Stage& stage = all.stage;
  const Problem& p = all.problem();
  Output output(p);
  const Job job = job_of(options, all);
  Facts facts = facts_of(stage, options, all, job);
  facts.timing = run_timed(stage, job, output, label_of(stage), options.repeats, 2);
  note_of_run(stage, facts);

  const Expected expected = expect(p, all.inputs.view(), all.plan.oracle.queries);
  facts.oracle = check_against_oracle(p, expected, output, stage.leeway);
  if (all.previous)
    facts.previous =
        compare_with(*all.previous, job, all.plan, expected, output, stage.leeway, options.repeats);
  if (file) {
    write_output(*file, facts, output);
    facts.output = options.output;
  }
  fmt::print(
      "{}{}", options.json ? json_report(facts) : text_report(facts), options.json ? "\n" : "");
  return facts.right() ? kRight : kMismatch;
}

/// All steps that suit one input, each held against the oracle and against the one before. On a GPU they are
/// then timed in turn; the emulator's time says nothing.
ExitCode run_ladder(const Options& options, const Ladder& whole) {
  const Prepared all = prepare(options, whole);
  const Problem& p = all.problem();
  std::vector<Stage> steps;
  std::vector<std::string> left_out;
  for (const Stage& step : whole.steps)
    if (suits(step, p.d, options.device))
      steps.push_back(step);
    else
      left_out.push_back(step.step);
  if (steps.empty()) steps = {all.stage};
  const Job job = job_of(options, all);
  const Expected expected = expect(p, all.inputs.view(), all.plan.oracle.queries);

  Output outputs[2] = {Output(p), Output(p)};
  std::vector<Facts> ladder;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Stage& stage = steps[s];
    Output &output = outputs[s % 2], &before = outputs[(s + 1) % 2];
    Facts facts = facts_of(stage, options, all, job);
    facts.timing = run_timed(stage, job, output, label_of(stage), 0, 0);
    note_of_run(stage, facts);
    facts.oracle = check_against_oracle(p, expected, output, stage.leeway);
    if (s > 0) {
      facts.previous = previous_facts(steps[s - 1], all.plan.oracle);
      facts.previous->difference =
          check_against_previous(p, expected, output, before, stage.leeway, steps[s - 1].leeway);
    } else if (whole.previous) {
      facts.previous = compare_with(
          *whole.previous, job, all.plan, expected, output, stage.leeway, options.repeats);
    }
    ladder.push_back(std::move(facts));
  }
  if (!ladder.front().timing.facts.emulated) {
    const std::vector<Timing> timings =
        run_in_turn(steps, job, outputs[0], options.repeats, static_cast<double>(steps.size()));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      ladder[s].timing = timings[s];
      if (s > 0) ladder[s].previous->run = {timings[s - 1], true};
    }
  }
  fmt::print("{}{}",
             options.json ? ladder_json(ladder, left_out) : ladder_text(ladder, left_out),
             options.json ? "\n" : "");
  return std::all_of(ladder.begin(), ladder.end(), [](const Facts& f) { return f.right(); })
             ? kRight
             : kMismatch;
}

int refuse(const Stage& stage, const std::string& problem, ExitCode code = kRefused) {
  fmt::print(stderr, "{}: {}\n", stage.name, one_line(problem));
  return code;
}

}  // namespace

int stage_main(int argc,
               char** argv,
               const std::vector<Stage>& steps,
               const std::optional<Stage>& previous) try {
  const Options options = parse_options(argc, argv, steps);
  ExitCode code = kRight;
  if (!options.answer.empty())
    fmt::print("{}", options.answer);
  else if (options.ladder)
    code = run_ladder(options, {steps, previous});
  else
    code = run_and_report(options, {steps, previous});
  if (std::fflush(stdout) != 0) return refuse(steps.back(), "standard output can't be written");
  return code;
} catch (const Refused& refused) {
  return refuse(steps.back(), refused.what());
} catch (const CannotRun& cannot) {
  return refuse(steps.back(), cannot.what(), kCannotRun);
} catch (const std::bad_alloc&) {
  const auto available = available_memory();
  return refuse(
      steps.back(),
      fmt::format("out of memory{}: smaller sizes need less",
                  available ? fmt::format(" ({} are free)", bytes_text(*available)) : ""));
} catch (const std::exception& error) {
  return refuse(steps.back(), error.what());
}

}  // namespace fa
