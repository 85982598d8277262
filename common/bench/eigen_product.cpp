// Eigen's products by themselves, two yardsticks for stage 3: one large product on
// Eigen's own threads, and products of the size of stage 3's tiles with nothing between them.
//
// A library of its own: Eigen is compiled here with its threads, in the stages without them (the
// harness has the threads there), and one program can't hold both versions of a template.
#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cmath>

namespace {
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
}  // namespace

/// One product of two n × n float32 matrices on `threads` threads. Returns seconds.
extern "C" double fa_eigen_product(long n, int threads) {
  static Eigen::MatrixXf A, B, C;
  if (A.rows() != n) {
    A = Eigen::MatrixXf::Random(n, n);
    B = Eigen::MatrixXf::Random(n, n);
    C = Eigen::MatrixXf::Zero(n, n);
  }
  Eigen::setNbThreads(threads);
  const Clock::time_point start = Clock::now();
  C.noalias() = A * B;
  return seconds_since(start);
}

/// S = scale · Q Kᵀ and O += S V for all tiles of `heads` heads [N, d], no mask, one thread, in
/// products that pack their operands themselves: what stage 3 would take with them, without its
/// softmax. Returns seconds.
extern "C" double fa_tile_products(long heads, long N, long d, long Br, long Bc) {
  const Rows Q = Rows::Random(N, d), K = Rows::Random(N, d), V = Rows::Random(N, d);
  Rows S(Br, Bc), O(Br, d);
  Eigen::setNbThreads(1);
  const float scale = 1 / std::sqrt(float(d));
  const Clock::time_point start = Clock::now();
  for (long h = 0; h < heads; ++h)
    for (long i = 0; i < N; i += Br) {
      const long rows = std::min(Br, N - i);
      O.setZero();
      for (long j = 0; j < N; j += Bc) {
        const long cols = std::min(Bc, N - j);
        auto tile = S.topLeftCorner(rows, cols);
        tile.noalias() = scale * Q.middleRows(i, rows) * K.middleRows(j, cols).transpose();
        O.topRows(rows).noalias() += tile * V.middleRows(j, cols);
      }
    }
  return seconds_since(start);
}
