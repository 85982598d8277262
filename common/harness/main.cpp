#include "common/harness/main.hpp"

#include <fmt/format.h>

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
  throw Refused(fmt::format(
      "stage {} takes {}, not {} (--dtype converts)", stage.number, known, name_of(dtype)));
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
  PreviousFacts before{stage.number, stage.name, {}, plan.oracle, {}};
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

ExitCode run_and_report(const Options& options,
                        const Stage& stage,
                        const std::optional<Stage>& previous) {
  std::optional<OutputFile> file;
  if (!options.output.empty()) {
    require_other_file(options);
    file.emplace(options.output);  // refused now, not after the run
  }

  Facts facts;
  Inputs inputs;
  Plan plan;
  if (options.from_files()) {
    inputs = load(options, facts.notes);
    require_dtype(stage, inputs.problem.dtype);
    plan = make_plan(inputs.problem, options, stage, previous, 0);
  } else {
    const Problem p = problem_from(options);
    validate(p);
    require_dtype(stage, p.dtype);
    plan = make_plan(p, options, stage, previous, bytes_of_inputs(p));
    inputs = make_inputs(p, options.pattern, options.seed);
  }
  facts.notes.insert(facts.notes.end(), plan.notes.begin(), plan.notes.end());
  for (const std::string& note : facts.notes) print_note(stage, note);

  const Problem& p = inputs.problem;
  const Tensors tensors = inputs.view();
  Output output(p);
  Job job;
  job.problem = p;
  job.Q = tensors.Q;
  job.K = tensors.K;
  job.V = tensors.V;
  job.tile = options.tile;
  job.threads = plan.threads;
  job.device = options.device;

  facts.number = stage.number;
  facts.name = stage.name;
  facts.title = stage.title;
  facts.problem = p;
  facts.input = input_text(options);
  facts.threads = plan.threads;
  facts.tile = stage.tile_for(p, options.tile);
  const Index rows = facts.tile.Br > 0 ? facts.tile.Br : std::max<Index>(p.Nq, 1);
  facts.tasks = p.B * p.Hq * ((p.Nq + rows - 1) / rows);
  facts.cost = stage.cost(job);
  facts.compared = plan.oracle;
  facts.timing =
      run_timed(stage, job, output, fmt::format("stage {}", stage.number), options.repeats, 2);

  const Expected expected = expect(p, tensors, plan.oracle.queries);
  facts.oracle = check_against_oracle(p, expected, output, stage.leeway);
  if (previous)
    facts.previous =
        compare_with(*previous, job, plan, expected, output, stage.leeway, options.repeats);
  if (file) {
    write_output(*file, facts, output);
    facts.output = options.output;
  }
  fmt::print(
      "{}{}", options.json ? json_report(facts) : text_report(facts), options.json ? "\n" : "");
  return facts.right() ? kRight : kMismatch;
}

int refuse(const Stage& stage, const std::string& problem, ExitCode code = kRefused) {
  fmt::print(stderr, "{}: {}\n", stage.name, one_line(problem));
  return code;
}

}  // namespace

int stage_main(int argc,
               char** argv,
               const Stage& stage,
               const std::optional<Stage>& previous) try {
  const Options options = parse_options(argc, argv, stage);
  ExitCode code = kRight;
  if (options.answer.empty())
    code = run_and_report(options, stage, previous);
  else
    fmt::print("{}", options.answer);
  if (std::fflush(stdout) != 0) return refuse(stage, "standard output can't be written");
  return code;
} catch (const Refused& refused) {
  return refuse(stage, refused.what());
} catch (const CannotRun& cannot) {
  return refuse(stage, cannot.what(), kCannotRun);
} catch (const std::bad_alloc&) {
  const auto available = available_memory();
  return refuse(
      stage,
      fmt::format("out of memory{}: smaller sizes need less",
                  available ? fmt::format(" ({} are free)", bytes_text(*available)) : ""));
} catch (const std::exception& error) {
  return refuse(stage, error.what());
}

}  // namespace fa
