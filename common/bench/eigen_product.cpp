// A large product by Eigen, on its own threads: the ceiling that stage 3 is held against.
//
// A library of its own: Eigen is compiled here with its threads, in the stages without them (the
// harness has the threads there), and one program can't hold both versions of a template.
#include <Eigen/Core>
#include <chrono>

/// One product of two n × n float32 matrices on `threads` threads. Returns seconds.
extern "C" double fa_eigen_product(long n, int threads) {
  static Eigen::MatrixXf A, B, C;
  if (A.rows() != n) {
    A = Eigen::MatrixXf::Random(n, n);
    B = Eigen::MatrixXf::Random(n, n);
    C = Eigen::MatrixXf::Zero(n, n);
  }
  Eigen::setNbThreads(threads);
  const auto start = std::chrono::steady_clock::now();
  C.noalias() = A * B;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
