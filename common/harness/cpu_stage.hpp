// Turns a CPU stage, which knows one head, into a Stage, which takes the whole problem: batch,
// head map and threads are decided here, once for all CPU stages.
//
//   Stage 1 and 2: a task is one head.      attention(Q, K, V, O, LSE, scale, mask)
//   Stage 3:       a task is one query tile, so that one long head keeps every core busy too.
//                                           attention(Q, K, V, O, LSE, scale, mask, tile)
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/harness/stage.hpp"

namespace fa {

template <class T>
using HeadAttention = void (*)(
    Matrix<const T>, Matrix<const T>, Matrix<const T>, Matrix<T>, float*, float, const Mask&);
template <class T>
using TiledHeadAttention = void (*)(
    Matrix<const T>, Matrix<const T>, Matrix<const T>, Matrix<T>, float*, float, const Mask&, Tile);

/// Queries [first, last) of one head.
struct HeadTask {
  Index b = 0;
  Index h = 0;
  Index first = 0;
  Index last = 0;
};

/// How many threads a job gets: what it asks for, else one a core, or what OMP_NUM_THREADS says.
inline int thread_count([[maybe_unused]] const Job& job) {
#ifdef _OPENMP
  return job.threads > 0 ? job.threads : omp_get_max_threads();
#else
  return 1;
#endif
}

/// Splits a job into tasks of `rows` queries (0: whole heads). The last queries come first: under
/// a causal mask they see the most keys, and long tasks at the end would leave cores idle.
inline std::vector<HeadTask> head_tasks(const Job& job, Index rows) {
  const Problem& p = job.problem;
  std::vector<HeadTask> tasks;
  if (p.Nq == 0) return tasks;
  if (rows <= 0) rows = p.Nq;
  std::vector<std::pair<Index, Index>> ranges;
  if (job.queries.empty())
    for (Index i0 = (p.Nq - 1) / rows * rows; i0 >= 0; i0 -= rows)
      ranges.emplace_back(i0, std::min(i0 + rows, p.Nq));
  for (const Index i : job.queries) ranges.emplace_back(i, i + 1);
  for (const auto& [first, last] : ranges)
    for (Index b = 0; b < p.B; ++b)
      for (Index h = 0; h < p.Hq; ++h) tasks.push_back({b, h, first, last});
  return tasks;
}

/// Calls work(task) for every task, on the job's threads. The first exception is thrown again here.
template <class Work>
void for_each_task(const Job& job, const std::vector<HeadTask>& tasks, Work work) {
  const Index count = static_cast<Index>(tasks.size());
  std::atomic<Index> done{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) num_threads(thread_count(job))
  for (Index t = 0; t < count; ++t) {
    if (failed) continue;
    try {
      work(tasks[static_cast<std::size_t>(t)]);
      if (job.progress) job.progress(static_cast<double>(++done) / static_cast<double>(count));
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

namespace detail {
template <class T>
void call(HeadAttention<T> attention,
          Matrix<const T> Q,
          Matrix<const T> K,
          Matrix<const T> V,
          Matrix<T> O,
          float* LSE,
          float scale,
          const Mask& mask,
          Tile) {
  attention(Q, K, V, O, LSE, scale, mask);
}
template <class T>
void call(TiledHeadAttention<T> attention,
          Matrix<const T> Q,
          Matrix<const T> K,
          Matrix<const T> V,
          Matrix<T> O,
          float* LSE,
          float scale,
          const Mask& mask,
          Tile tile) {
  attention(Q, K, V, O, LSE, scale, mask, tile);
}
}  // namespace detail

/// Runs one stage's attention over all heads of the job.
template <class T, class Attention>
void run_heads(const Job& job, Attention attention, Tile tile) {
  const Problem& p = job.problem;
  const Tensor<const T> Q = job.Q.as<const T>(), K = job.K.as<const T>(), V = job.V.as<const T>();
  const Tensor<T> O = job.O.as<T>();
  for_each_task(job, head_tasks(job, tile.Br), [&](const HeadTask& task) {
    const Index count = task.last - task.first;
    const Index kv = p.kv_head(task.h);
    detail::call<T>(attention,
                    Q.head(task.b, task.h).middle_rows(task.first, count),
                    K.head(task.b, kv),
                    V.head(task.b, kv),
                    O.head(task.b, task.h).middle_rows(task.first, count),
                    job.LSE + (task.b * p.Hq + task.h) * p.Nq + task.first,
                    p.scale,
                    p.mask().from_query(task.first),
                    tile);
  });
}

/// The prediction for a whole job from the stage's formula for one head.
template <class HeadCost>
Cost cost_of_heads(const Job& job, HeadCost head_cost, Tile tile) {
  const Problem& p = job.problem;
  Cost total;
  Index tasks = 0;
  const Index rows = tile.Br > 0 ? std::min(tile.Br, p.Nq) : p.Nq;
  if (p.Nq == 0) return total;
  // Tasks of one size cost the same memory; the largest number at work at once is the thread count.
  const Cost head = head_cost(HeadShape{p.Nq, p.d, bytes_of(p.dtype), p.mask(), tile});
  const Cost task =
      head_cost(HeadShape{job.queries.empty() ? rows : 1, p.d, bytes_of(p.dtype), p.mask(), tile});
  const Index per_head =
      job.queries.empty() ? (p.Nq + rows - 1) / rows : static_cast<Index>(job.queries.size());
  tasks = p.B * p.Hq * per_head;
  total.scratch_bytes =
      task.scratch_bytes * static_cast<double>(std::min<Index>(thread_count(job), tasks));
  total.traffic_bytes = head.traffic_bytes * static_cast<double>(p.B * p.Hq);
  return total;
}

}  // namespace fa
