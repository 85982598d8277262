#include "common/course/example.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/course/fragment_example.hpp"
#include "common/course/launch_example.hpp"
#include "common/course/stages.hpp"
#include "common/course/table.hpp"

namespace fa::course {

namespace {

using Pair = std::array<double, 2>;

constexpr int kKeys = 4;
constexpr int kTile = 2;
constexpr Pair kQuery = {1, 1};
constexpr std::array<Pair, kKeys> kKey = {{{1, 0}, {1, 1}, {0, 1}, {2, 1}}};
constexpr std::array<Pair, kKeys> kValue = {{{4, 0}, {0, 4}, {4, 4}, {1, 2}}};
// With this scale exp(s − m) is a power of two.
const double kScale = std::log(2.0);
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double product(int key) {
  const Pair& k = kKey[static_cast<std::size_t>(key)];
  return kQuery[0] * k[0] + kQuery[1] * k[1];
}

/// m, l and o of the query after some keys. m is in units of ln 2, like every score here.
struct State {
  double m = kMinusInfinity;
  double l = 0;
  Pair o = {0, 0};
};

/// What a key or a tile does to the state.
struct Step {
  State before;
  double alpha = 0;
  std::vector<double> p;
  State after;
};

/// The recurrence of stages 2 and 3 by hand, for the keys [first, last).
Step step(const State& before, int first, int last) {
  Step result{before, 0, {}, before};
  State& after = result.after;
  for (int j = first; j < last; ++j) after.m = std::max(after.m, product(j));
  result.alpha = before.m == kMinusInfinity ? 0 : std::exp2(before.m - after.m);
  after.l *= result.alpha;
  for (double& o : after.o) o *= result.alpha;
  for (int j = first; j < last; ++j) {
    const double p = std::exp2(product(j) - after.m);
    result.p.push_back(p);
    after.l += p;
    for (std::size_t x = 0; x < 2; ++x) after.o[x] += p * kValue[static_cast<std::size_t>(j)][x];
  }
  return result;
}

/// A call of the stage with the first `keys` keys; V's columns are `values`, or the identity, for
/// which O is P itself.
struct Returned {
  std::vector<double> O;
  double LSE = 0;
};

Returned call(const fa::Stage& stage, int keys, bool identity) {
  const Index d = identity ? kKeys : 2;  // zeros behind the two components change no product
  Problem p;
  p.Nq = 1;
  p.Nkv = keys;
  p.d = d;
  p.scale = static_cast<float>(kScale);
  std::vector<float> Q(static_cast<std::size_t>(d)), K(static_cast<std::size_t>(d * keys)),
      V(K.size());
  std::vector<float> O(static_cast<std::size_t>(d));
  float LSE = 0;
  for (std::size_t x = 0; x < 2; ++x) Q[x] = static_cast<float>(kQuery[x]);
  for (std::size_t j = 0; j < static_cast<std::size_t>(keys); ++j) {
    float* k_j = &K[j * static_cast<std::size_t>(d)];
    float* v_j = &V[j * static_cast<std::size_t>(d)];
    for (std::size_t x = 0; x < 2; ++x) k_j[x] = static_cast<float>(kKey[j][x]);
    if (identity) v_j[j] = 1;
    for (std::size_t x = 0; x < 2 && !identity; ++x) v_j[x] = static_cast<float>(kValue[j][x]);
  }
  const auto view = [d](std::vector<float>& data) {
    const Index N = static_cast<Index>(data.size()) / d;
    return AnyTensor{data.data(), DType::float32, 1, 1, N, d, N * d, N * d, d};
  };
  Job job;
  job.problem = p;
  job.Q = view(Q);
  job.K = view(K);
  job.V = view(V);
  job.O = view(O);
  job.LSE = &LSE;
  job.tile = {1, kTile};
  job.threads = 1;
  stage.run(job);
  return {{O.begin(), O.end()}, static_cast<double>(LSE)};
}

/// 3, 3/2, 1/4 … where the number is one of these, else four digits.
std::string number(double x) {
  if (x == kMinusInfinity) return "−∞";
  for (const int denominator : {1, 2, 4, 8})
    if (std::abs(x * denominator - std::round(x * denominator)) < 1e-5) {
      const std::string above = fmt::format("{:.0f}", std::round(x * denominator) + 0.0);
      return denominator == 1 ? above : fmt::format("{}/{}", above, denominator);
    }
  return fmt::format("{:.4f}", x);
}

template <class Numbers>
std::string list(const Numbers& numbers) {
  std::string text;
  for (const double x : numbers) text += (text.empty() ? "(" : ", ") + number(x);
  return text + ")";
}

/// "1/4·(4, 0) + 1/2·(0, 4)" for keys from `first` on.
std::string weighted_values(const std::vector<double>& p, int first) {
  std::string text;
  for (std::size_t t = 0; t < p.size(); ++t)
    text += (t == 0 ? "" : " + ") + number(p[t]) + "·" +
            list(kValue[static_cast<std::size_t>(first) + t]);
  return text;
}

std::string sum(const std::vector<double>& numbers) {
  std::string text;
  for (const double x : numbers) text += (text.empty() ? "" : " + ") + number(x);
  return text;
}

std::string problem_text() {
  Table table{{"key j", "k_j", "v_j", "q·k_j", "s_j"}, {}, {false, true, true, false, false}};
  for (int j = 0; j < kKeys; ++j)
    table.rows.push_back({std::to_string(j),
                          list(kKey[static_cast<std::size_t>(j)]),
                          list(kValue[static_cast<std::size_t>(j)]),
                          number(product(j)),
                          number(product(j)) + " ln 2"});
  return "One query, q = (1, 1), and four keys, d = 2. The scale is ln 2 instead of 1/√d, so that\n"
         "exp(s − m) is a power of two: exp(1 ln 2 − 3 ln 2) = 2^(1 − 3) = 1/4.\n\n" +
         table.text(2) + "\n";
}

bool close(double a, double b) { return std::abs(a - b) < 1e-5; }

/// What the stage returns for the first `keys` keys, turned into m, l and o, beside what the text
/// says; appends to `failure` where they differ.
std::string returned_text(const CourseStage& stage,
                          int keys,
                          const State& expected,
                          std::string& failure) {
  const Returned returned = call(stage.stage(), keys, false);
  const double l = std::exp(returned.LSE - expected.m * kScale);
  const Pair o = {returned.O[0] * l, returned.O[1] * l};
  if (!close(l, expected.l) || !close(o[0], expected.o[0]) || !close(o[1], expected.o[1]))
    failure += fmt::format(
        "{}, first {} keys: by hand m = {} ln 2, l = {}, o = {}; the stage has l = {:.6f}, o = "
        "({:.6f}, {:.6f})\n",
        stage.folder,
        keys,
        number(expected.m),
        number(expected.l),
        list(expected.o),
        l,
        o[0],
        o[1]);
  return fmt::format("O = {}, LSE = {:.4f}: l = exp(LSE − m) = {}, o = l O = {}",
                     list(returned.O),
                     returned.LSE,
                     number(l),
                     list(o));
}

std::string result_text(const State& last) {
  return fmt::format("O = o / l = {} / {} = {}      LSE = m + log l = {} ln 2 + ln {} = {:.4f}\n",
                     list(last.o),
                     number(last.l),
                     list(Pair{last.o[0] / last.l, last.o[1] / last.l}),
                     number(last.m),
                     number(last.l),
                     last.m * kScale + std::log(last.l));
}

std::string naive(const CourseStage& stage, std::string& failure) {
  const Step all = step({}, 0, kKeys);
  std::vector<double> scores, P;
  for (int j = 0; j < kKeys; ++j) scores.push_back(product(j));
  for (const double p : all.p) P.push_back(p / all.after.l);
  std::string text = fmt::format(
      "pass 1   S = {} ln 2\n"
      "pass 2   m = {} ln 2\n"
      "         P = exp(S − m) = {}\n"
      "         l = {} = {}\n"
      "pass 3   o = {} = {}\n"
      "         ",
      list(scores),
      number(all.after.m),
      list(all.p),
      sum(all.p),
      number(all.after.l),
      weighted_values(all.p, 0),
      list(all.after.o));
  text += result_text(all.after);
  text += fmt::format("\n{} returns\n", stage.folder);
  text += "  " + returned_text(stage, kKeys, all.after, failure) + "\n";
  const Returned weights = call(stage.stage(), kKeys, true);
  for (std::size_t j = 0; j < P.size(); ++j)
    if (!close(weights.O[j], P[j]))
      failure += fmt::format(
          "{}: weight {} is {:.6f}, by hand {:.6f}\n", stage.folder, j, weights.O[j], P[j]);
  text += fmt::format("  with V = identity, O is the row of weights P / l itself: {}\n",
                      list(weights.O));
  return text;
}

std::string online(const CourseStage& stage, std::string& failure) {
  Table table{{"j", "s", "m_old", "m", "alpha", "p", "l = alpha l + p", "o = alpha o + p v"},
              {},
              {false, false, false, false, false, false, true, true}};
  std::string checks;
  State state;
  for (int j = 0; j < kKeys; ++j) {
    const Step one = step(state, j, j + 1);
    table.rows.push_back({std::to_string(j),
                          number(product(j)),
                          number(one.before.m),
                          number(one.after.m),
                          number(one.alpha),
                          number(one.p[0]),
                          fmt::format("{}·{} + {} = {}",
                                      number(one.alpha),
                                      number(one.before.l),
                                      number(one.p[0]),
                                      number(one.after.l)),
                          fmt::format("{}·{} + {} = {}",
                                      number(one.alpha),
                                      list(one.before.o),
                                      weighted_values(one.p, j),
                                      list(one.after.o))});
    state = one.after;
    checks += fmt::format(
        "  {} key{}  {}\n", j + 1, j == 0 ? " " : "s", returned_text(stage, j + 1, state, failure));
  }
  return "One pass over the keys; s, m_old and m in units of ln 2.\n\n" + table.text(2) + "\n" +
         result_text(state) + fmt::format("\n{} returns, for the first\n", stage.folder) + checks;
}

std::string tiled(const CourseStage& stage, std::string& failure) {
  std::string text =
                  "One pass over the tiles (Br = 1, Bc = 2); S, m_old and m in units of ln 2.\n\n",
              checks;
  State state;
  for (int j0 = 0; j0 < kKeys; j0 += kTile) {
    const int j1 = j0 + kTile;
    const Step one = step(state, j0, j1);
    std::vector<double> scores;
    for (int j = j0; j < j1; ++j) scores.push_back(product(j));
    text += fmt::format(
        "tile {}   S = {}      m = max({}, {}) = {}\n"
        "         alpha = 2^(m_old − m) = {}      P = 2^(S − m) = {}\n"
        "         l = alpha l + ΣP = {}·{} + {} = {}\n"
        "         o = alpha o + P V = {}·{} + {} = {}\n",
        j0 / kTile,
        list(scores),
        number(one.before.m),
        number(*std::max_element(scores.begin(), scores.end())),
        number(one.after.m),
        number(one.alpha),
        list(one.p),
        number(one.alpha),
        number(one.before.l),
        sum(one.p),
        number(one.after.l),
        number(one.alpha),
        list(one.before.o),
        weighted_values(one.p, j0),
        list(one.after.o));
    state = one.after;
    checks += fmt::format("  {} keys  {}\n", j1, returned_text(stage, j1, state, failure));
  }
  return text + "\n" + result_text(state) +
         fmt::format("\n{} returns, for the first\n", stage.folder) + checks;
}

}  // namespace

WorkedExample worked_example(int stage_number) {
  if (stage_number == 5) return fragment_example();
  const CourseStage& stage = stage_by_number(stage_number);
  WorkedExample example;
  if (stage_number <= 3) example.text = problem_text();
  switch (stage_number) {
    case 1:
      example.text += naive(stage, example.failure);
      break;
    case 2:
      example.text += online(stage, example.failure);
      break;
    case 3:
      example.text += tiled(stage, example.failure);
      break;
    case 4:
      return launch_example(stage);
    default:
      throw Refused(fmt::format("stage {}: the worked example is for stages 1 to 5", stage_number));
  }
  return example;
}

}  // namespace fa::course
