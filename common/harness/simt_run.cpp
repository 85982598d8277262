#include "common/harness/simt_run.hpp"

#include <fmt/format.h>

#include "common/harness/cpu_stage.hpp"
#include "common/simt/launch.hpp"

namespace fa {

RunFacts in_emulator(const Job& job, const std::function<void()>& attention) {
  // An outer session's choices hold: of some blocks of a huge grid, or of when copies arrive.
  simt::Options options;
  if (const simt::Session* outer = simt::Session::current()) options = outer->options();
  options.workers = thread_count(job);
  options.progress = job.progress;
  simt::Session session(options);
  attention();
  const simt::Report& report = session.report();
  RunFacts facts;
  facts.emulated = true;
  facts.device =
      fmt::format("emulator (simt), {} thread{}", options.workers, options.workers == 1 ? "" : "s");
  facts.global_bytes = static_cast<double>(
      report.total.global_load_bytes + report.total.global_store_bytes +
      report.total.async_copy_bytes + report.total.tma_bytes + report.total.tma_store_bytes);
#define FA_COUNT(name, meaning) facts.counts.emplace_back(#name, report.total.name);
  FA_SIMT_COUNTERS(FA_COUNT)
#undef FA_COUNT
#define FA_COUNT_USED(name, meaning) \
  if (report.total.name) facts.counts.emplace_back(#name, report.total.name);
  FA_SIMT_RARE_COUNTERS(FA_COUNT_USED)
#undef FA_COUNT_USED
  facts.faults = report.text();
  return facts;
}

}  // namespace fa
