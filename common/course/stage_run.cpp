#include "common/course/stage_run.hpp"

#include "common/course/subprocess.hpp"

namespace fa::course {

StageRun run_stage(const Places& places, const CourseStage& stage, std::vector<std::string> flags) {
  flags.insert(flags.begin(), (places.build / stage.folder).string());
  flags.emplace_back("--json");
  const Finished program = run_program(flags);
  if (program.exit_code == 127) throw Refused(flags.front() + ": not built");
  StageRun run{program.exit_code, nlohmann::json::parse(program.output, nullptr, false)};
  if (run.facts.is_discarded()) run.facts = nullptr;
  return run;
}

}  // namespace fa::course
