#include "common/attention/oracle.hpp"

#include <Eigen/Core>
#include <cmath>
#include <limits>

namespace fa {

namespace {

using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One head as float64, [N, d].
Doubles as_doubles(const AnyTensor& X, Index b, Index h) {
  Doubles result(X.N, X.d);
  dispatch(X.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Matrix<const T> M = X.as<const T>().head(b, h);
    for (Index i = 0; i < X.N; ++i)
      for (Index x = 0; x < X.d; ++x)
        result(i, x) = static_cast<double>(static_cast<float>(M[i][x]));
  });
  return result;
}

double rounded(double value, DType dtype) {
  return dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    return static_cast<double>(static_cast<float>(T(static_cast<float>(value))));
  });
}

double finite_or_0(double value) { return std::isfinite(value) ? value : 0; }

/// Does query i see key j? Written from the contract, apart from the stages' Mask.
bool sees(const Problem& p, Index i, Index j) {
  const Index at = i + (p.Nkv - p.Nq);
  if (p.causal && j > at) return false;
  if (p.window_left >= 0 && j < at - p.window_left) return false;
  if (p.window_right >= 0 && j > at + p.window_right) return false;
  return true;
}

OracleRow oracle_row(const Problem& p,
                     const Doubles& K,
                     const Doubles& V,
                     const Eigen::VectorXd& K_norms,
                     const Eigen::RowVectorXd& q,
                     Index i) {
  OracleRow row;
  row.O.assign(static_cast<std::size_t>(p.d), 0.0);
  row.A = row.O_rounded = row.O;

  std::vector<Index> keys;
  for (Index j = 0; j < p.Nkv; ++j)
    if (sees(p, i, j)) keys.push_back(j);
  row.visible = static_cast<Index>(keys.size());
  row.LSE = -std::numeric_limits<double>::infinity();
  if (keys.empty()) return row;

  Eigen::VectorXd s(row.visible);
  double largest_k = 0, largest_s = 0;
  for (Index t = 0; t < row.visible; ++t) {
    const Index j = keys[static_cast<std::size_t>(t)];
    s[t] = static_cast<double>(p.scale) * K.row(j).dot(q);
    largest_k = std::max(largest_k, finite_or_0(K_norms[j]));
    largest_s = std::max(largest_s, finite_or_0(std::abs(s[t])));
  }
  double m = -std::numeric_limits<double>::infinity();
  for (Index t = 0; t < row.visible; ++t) m = std::max(m, s[t]);

  // An infinite element makes its own score infinite, but not the tolerance of the others.
  row.score_size = std::abs(static_cast<double>(p.scale)) * q.norm() * largest_k;
  if (!std::isfinite(row.score_size)) row.score_size = largest_s;
  // libm's exp: Eigen's vectorised one is not 0 for −inf.
  const Eigen::VectorXd weights = s.unaryExpr([m](double score) { return std::exp(score - m); });
  row.l = weights.sum();
  row.LSE = m + std::log(row.l);

  Eigen::Map<Eigen::RowVectorXd> O(row.O.data(), p.d), A(row.A.data(), p.d),
      O_rounded(row.O_rounded.data(), p.d);
  for (Index t = 0; t < row.visible; ++t) {
    const Index j = keys[static_cast<std::size_t>(t)];
    const double P = weights[t] / row.l;
    O += P * V.row(j);
    A += P * V.row(j).cwiseAbs();
    O_rounded += rounded(P, p.dtype) * V.row(j);
    for (Index x = 0; x < p.d; ++x) row.max_v = std::max(row.max_v, finite_or_0(std::abs(V(j, x))));
  }
  for (double& value : row.O_rounded) value = rounded(value, p.dtype);
  return row;
}

}  // namespace

std::vector<OracleRow> oracle(const Problem& p,
                              const AnyTensor& Q,
                              const AnyTensor& K,
                              const AnyTensor& V,
                              Index b,
                              Index h,
                              const std::vector<Index>& queries) {
  const Index kv = h * p.Hkv / p.Hq;
  const Doubles k = as_doubles(K, b, kv), v = as_doubles(V, b, kv);
  const Eigen::VectorXd k_norms = k.rowwise().norm();

  std::vector<OracleRow> rows(queries.size());
  const Index count = static_cast<Index>(queries.size());
#pragma omp parallel for schedule(dynamic, 8)
  for (Index r = 0; r < count; ++r) {
    const Index i = queries[static_cast<std::size_t>(r)];
    Eigen::RowVectorXd q(p.d);
    for (Index x = 0; x < p.d; ++x) q[x] = static_cast<double>(Q.at(b, h, i, x));
    rows[static_cast<std::size_t>(r)] = oracle_row(p, k, v, k_norms, q, i);
  }
  return rows;
}

}  // namespace fa
