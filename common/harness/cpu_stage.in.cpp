// Stage @FA_NUMBER@ as the harness sees it. Generated from common/harness/cpu_stage.in.cpp.
#include "@FA_FOLDER@/attention.hpp"
#include "common/harness/cpu_stage.hpp"

namespace fa {

Stage @FA_NAMESPACE@_stage();

Stage @FA_NAMESPACE@_stage() {
  Stage stage;
  stage.number = @FA_NUMBER@;
  stage.name = "@FA_NAME@";
  stage.title = "@FA_TITLE@";
  stage.dtypes = {DType::float32, DType::float16, DType::bfloat16};
  stage.tiled = @FA_TILED@;
  stage.leeway.whole_tiles = stage.tiled;
  stage.tile_for = []([[maybe_unused]] const Problem& p, [[maybe_unused]] Tile asked) {
    Tile tile;
#if @FA_TILED@
    tile = @FA_NAMESPACE@::default_tile(p.B * p.Hq * p.Nq);
    if (asked.Br > 0) tile.Br = asked.Br;
    if (asked.Bc > 0) tile.Bc = asked.Bc;
#endif
    return tile;
  };
  stage.run = [tile_for = stage.tile_for](const Job& job) {
    dispatch(job.problem.dtype, [&](auto zero) {
      using T = decltype(zero);
      run_heads<T>(job, @FA_NAMESPACE@::attention<T>, tile_for(job.problem, job.tile));
    });
    return RunFacts{};
  };
  stage.cost = [tile_for = stage.tile_for](const Job& job) {
    return cost_of_heads(job, @FA_NAMESPACE@::cost, tile_for(job.problem, job.tile));
  };
  return stage;
}

}  // namespace fa
