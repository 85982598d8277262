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

/// The weight that may go elsewhere when every score is off by δ: P of the key that has most can't
/// fall below what the others, each e^2δ times as heavy, leave it.
double weight_unsure(const Eigen::VectorXd& s, double LSE, double delta) {
  if (!std::isfinite(LSE)) return 1;
  Eigen::Index top = 0;
  s.maxCoeff(&top);
  double sum = 0;
  for (Eigen::Index t = 0; t < s.size(); ++t)
    if (t != top) sum += std::exp(std::min(0.0, s[t] - LSE + 2 * delta));
  return std::min(1.0, sum);
}

/// What q·k loses at most, in any of `keys`, when it is summed in float32 and in order. `dots`: what is right.
double dot_loss(const Eigen::MatrixXf& K,
                const std::vector<Index>& keys,
                const Eigen::RowVectorXd& q,
                const Eigen::VectorXd& dots) {
  const Index first = keys.front();  // no mask leaves a key out between two
  Eigen::VectorXf sums = Eigen::VectorXf::Zero(dots.size());
  for (Eigen::Index x = 0; x < K.cols(); ++x)
    sums += static_cast<float>(q[x]) * K.col(x).segment(first, dots.size());
  double loss = 0;
  for (Eigen::Index t = 0; t < dots.size(); ++t)
    loss = std::max(loss, finite_or_0(std::abs(static_cast<double>(sums[t]) - dots[t])));
  return loss;
}

/// Sums `weights` and weights · V in float32, key by key, and sets what that loses.
void measure_losses(const Doubles& V,
                    const std::vector<Index>& keys,
                    const Eigen::VectorXd& weights,
                    OracleRow& row) {
  float l = 0;
  Eigen::RowVectorXf O = Eigen::RowVectorXf::Zero(V.cols());
  for (std::size_t t = 0; t < keys.size(); ++t) {
    const float p = static_cast<float>(weights[static_cast<Eigen::Index>(t)]);
    l += p;
    for (Eigen::Index x = 0; x < V.cols(); ++x) O[x] += p * static_cast<float>(V(keys[t], x));
  }
  const auto finite = [](double value) { return std::isfinite(value) ? value : 0; };
  row.LSE_loss = finite(std::abs(std::log(static_cast<double>(l) / row.l)));
  for (Eigen::Index x = 0; x < V.cols(); ++x) {
    const std::size_t at = static_cast<std::size_t>(x);
    const double lost = static_cast<double>(O[x]) / static_cast<double>(l) - row.O[at];
    row.O_loss = std::max(row.O_loss, finite(std::abs(lost) / row.A[at]));
  }
}

OracleRow oracle_row(const Problem& p,
                     const Doubles& K,
                     const Eigen::MatrixXf& K_float,
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

  Eigen::VectorXd s(row.visible), dots(row.visible);
  double largest_k = 0, largest_s = 0;
  for (Index t = 0; t < row.visible; ++t) {
    const Index j = keys[static_cast<std::size_t>(t)];
    dots[t] = K.row(j).dot(q);
    s[t] = static_cast<double>(p.scale) * dots[t];
    largest_k = std::max(largest_k, finite_or_0(K_norms[j]));
    largest_s = std::max(largest_s, finite_or_0(std::abs(s[t])));
  }
  double m = -std::numeric_limits<double>::infinity();
  for (Index t = 0; t < row.visible; ++t) {
    row.rises += s[t] > m;
    m = std::max(m, s[t]);
  }

  // An infinite element makes its own score infinite, but not the tolerance of the others.
  const double scale = std::abs(static_cast<double>(p.scale));
  row.dot_size = q.norm() * largest_k;
  row.score_size = scale * row.dot_size;
  if (!std::isfinite(row.score_size)) {
    row.score_size = largest_s;
    row.dot_size = finite_or_0(largest_s / scale);
  }
  row.dot_loss = finite_or_0(dot_loss(K_float, keys, q, dots) / row.dot_size);
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
  row.unsure = weight_unsure(s, row.LSE, score_error(row, p.d));
  measure_losses(V, keys, weights, row);
  return row;
}

/// The keys of which V has a NaN or infinite element and which at least one query sees.
std::vector<Index> nonfinite_keys(const Problem& p, const Doubles& V) {
  std::vector<Index> keys;
  for (Index j = 0; j < p.Nkv; ++j) {
    if (V.row(j).allFinite()) continue;
    bool seen = false;
    for (Index i = 0; i < p.Nq && !seen; ++i) seen = sees(p, i, j);
    if (seen) keys.push_back(j);
  }
  return keys;
}

}  // namespace

void share_losses(std::vector<OracleRow>& rows) {
  double O = 0, LSE = 0;
  for (const OracleRow& row : rows) {
    O = std::max(O, row.O_loss);
    LSE = std::max(LSE, row.LSE_loss);
  }
  for (OracleRow& row : rows) {
    row.O_loss = O;
    row.LSE_loss = LSE;
  }
}

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
  const Eigen::MatrixXf k_float = k.cast<float>();  // a column's keys beside each other
  const std::vector<Index> nonfinite = nonfinite_keys(p, v);

  std::vector<OracleRow> rows(queries.size());
  const Index count = static_cast<Index>(queries.size());
#pragma omp parallel for schedule(dynamic, 8)
  for (Index r = 0; r < count; ++r) {
    const Index i = queries[static_cast<std::size_t>(r)];
    Eigen::RowVectorXd q(p.d);
    for (Index x = 0; x < p.d; ++x) q[x] = static_cast<double>(Q.at(b, h, i, x));
    OracleRow& row = rows[static_cast<std::size_t>(r)];
    row = oracle_row(p, k, k_float, v, k_norms, q, i);
    for (const Index j : nonfinite) {
      if (sees(p, i, j)) continue;
      row.hidden_nonfinite.resize(static_cast<std::size_t>(p.d));
      for (Index x = 0; x < p.d; ++x)
        if (!std::isfinite(v(j, x))) row.hidden_nonfinite[static_cast<std::size_t>(x)] = true;
    }
  }
  share_losses(rows);
  return rows;
}

}  // namespace fa
