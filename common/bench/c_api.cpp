// The CPU stages behind C functions, so that pytorch_cpu.py can time them and PyTorch in turn, in
// one process, on the same arrays.
#include <chrono>

#include "common/harness/stage.hpp"

namespace fa {
Stage stage1_stage();
Stage stage2_stage();
Stage stage3_stage();
}  // namespace fa

namespace {

using namespace fa;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

AnyTensor bhnd(const float* data, Index B, Index H, Index N, Index d) {
  return {const_cast<float*>(data), DType::float32, B, H, N, d, H * N * d, N * d, d};
}

}  // namespace

extern "C" {

/// Runs stage `number` (1, 2 or 3) once in float32: q, k, v, o [B, H, N, d], lse [B, H, N],
/// contiguous. Br = 0, Bc = 0: the stage's default tile. Returns the seconds it took, or −1 when
/// it failed.
double fa_run(int number,
              long B,
              long H,
              long N,
              long d,
              int causal,
              int threads,
              long Br,
              long Bc,
              const float* q,
              const float* k,
              const float* v,
              float* o,
              float* lse) {
  static const Stage stages[] = {stage1_stage(), stage2_stage(), stage3_stage()};
  Job job;
  job.problem = {B, H, H, N, N, d, DType::float32, default_scale(d), causal != 0, -1, -1};
  job.Q = bhnd(q, B, H, N, d);
  job.K = bhnd(k, B, H, N, d);
  job.V = bhnd(v, B, H, N, d);
  job.O = bhnd(o, B, H, N, d);
  job.LSE = lse;
  job.tile = {Br, Bc};
  job.threads = threads;
  try {
    const Clock::time_point start = Clock::now();
    stages[number - 1].run(job);
    return seconds_since(start);
  } catch (...) {
    return -1;
  }
}

/// The default tile of stage 3 for so many queries, over all heads.
void fa_default_tile(long queries, long* Br, long* Bc) {
  Problem p;
  p.Nq = queries;
  const Tile tile = stage3_stage().tile_for(p, {});
  *Br = tile.Br;
  *Bc = tile.Bc;
}
}
