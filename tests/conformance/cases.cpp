// The cases of tests/cases/attention.json (its README says what the words mean) over every stage.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;
using nlohmann::json;

namespace {

/// The file lies elsewhere where the program was copied to another machine (tests/gpu.sh).
const json& cases() {
  const char* elsewhere = std::getenv("FA_CASES");
  static const json all = json::parse(std::ifstream(elsewhere ? elsewhere : FA_CASES_FILE));
  return all;
}

const json& case_named(const std::string& id) {
  for (const json& each : cases())
    if (each.at("id") == id) return each;
  throw std::runtime_error("no case " + id);
}

/// A number or a list of numbers, as a list.
template <class T>
std::vector<T> list(const json& value) {
  return value.is_array() ? value.get<std::vector<T>>() : std::vector<T>{value.get<T>()};
}

std::vector<DType> dtypes(const json& run) {
  if (!run.contains("dtype")) return kAllTypes;
  std::vector<DType> result;
  for (const std::string& name : list<std::string>(run.at("dtype")))
    for (const DType dtype : kAllTypes)
      if (name == name_of(dtype)) result.push_back(dtype);
  return result;
}

/// The problems that one run stands for: every combination of its lists of sizes.
std::vector<Problem> problems(const json& run) {
  std::vector<Problem> result;
  const bool square = run.contains("N");
  for (const DType dtype : dtypes(run))
    for (const Index d : list<Index>(run.value("d", json(64))))
      for (const Index Nq : list<Index>(run.at(square ? "N" : "Nq")))
        for (const Index Nkv : square ? std::vector<Index>{Nq} : list<Index>(run.at("Nkv"))) {
          Problem p = one_head(Nq, Nkv, d, dtype);
          p.B = run.value("B", Index{1});
          p.Hq = run.value("Hq", run.value("H", Index{1}));
          p.Hkv = run.value("Hkv", run.value("H", Index{1}));
          p.scale = run.value("scale", p.scale);
          const auto window = run.value("window", std::vector<Index>{-1, -1});
          result.push_back(with_mask(p, run.value("causal", false), window[0], window[1]));
        }
  return result;
}

/// Fills a tensor from the words of a case.
class Filler {
 public:
  explicit Filler(const Problem& problem) : p_(problem) {}

  /// X[b, h, row, x] = value(item, row), where item = b · H + h.
  template <class Value>
  void rows(const AnyTensor& X, Value value) {
    for (Index b = 0; b < X.B; ++b)
      for (Index h = 0; h < X.H; ++h)
        for (Index row = 0; row < X.N; ++row)
          for (Index x = 0; x < X.d; ++x)
            put(X, b, h, row, x, static_cast<float>(value(b * X.H + h, row)));
  }

  /// Q = 1 and K so that q·k is dots[j]: the same in every component where the type holds it, else
  /// in component 0 alone.
  void dots(const Tensors& t, const std::vector<double>& dots) {
    const auto d = static_cast<double>(p_.d);
    const bool spread = std::all_of(
        dots.begin(), dots.end(), [&](double dot) { return holds(dot / d) && holds(dot); });
    rows(t.Q, [](Index, Index) { return 1; });
    for (Index j = 0; j < p_.Nkv; ++j)
      for (Index x = 0; x < p_.d; ++x) {
        const double dot = dots[static_cast<std::size_t>(j)];
        put(t.K, 0, 0, j, x, static_cast<float>(spread ? dot / d : x == 0 ? dot : 0));
      }
  }

  /// Did every value fit the type without rounding?
  bool exact() const { return exact_; }

 private:
  bool holds(double value) const {
    return dispatch(p_.dtype, [&](auto zero) {
      return static_cast<double>(decltype(zero)(static_cast<float>(value))) == value;
    });
  }
  void put(const AnyTensor& X, Index b, Index h, Index row, Index x, float value) {
    set(X, b, h, row, x, value);
    exact_ = exact_ && X.at(b, h, row, x) == value;
  }

  Problem p_;
  bool exact_ = true;
};

/// Fills the inputs. Returns whether the type holds all that the answer depends on.
bool fill(const Inputs& inputs, const json& data) {
  const Problem& p = inputs.problem;
  const Tensors t = inputs.view();
  Filler filler(p);
  const auto V_by_key = [&](auto value) {
    filler.rows(t.V, [&](Index, Index j) { return value(j); });
  };
  const auto number = [](const json& values, Index at) {
    return values.at(static_cast<std::size_t>(at)).get<double>();
  };

  if (data == "uni") {
    V_by_key([](Index j) { return j + 1; });
  } else if (data.contains("const")) {
    // Rounding K moves all scores alike and no answer, so it doesn't count.
    const double dot = data.at("const").get<double>() / static_cast<double>(p.scale);
    Filler(p).dots(t, std::vector<double>(static_cast<std::size_t>(p.Nkv), dot));
    V_by_key([](Index j) { return j + 1; });
  } else if (data.contains("mark")) {
    V_by_key([&](Index j) {
      return static_cast<double>(j) == number(data.at("mark"), 0) ? number(data.at("mark"), 1) : 0;
    });
  } else if (data.contains("scores") || data.contains("stairs") || data.contains("dots")) {
    const bool scaled = !data.contains("dots");
    const json& values = data.contains("scores") ? data.at("scores")
                         : scaled                ? data.at("stairs")
                                                 : data.at("dots");
    const Index every = data.value("every", Index{1});
    std::vector<double> dots;
    for (Index j = 0; j < p.Nkv; ++j)
      dots.push_back(number(values, j / every) / (scaled ? static_cast<double>(p.scale) : 1.0));
    filler.dots(t, dots);
    V_by_key([&](Index j) { return number(data.at("V"), j / every); });
  } else if (data.contains("all")) {
    for (const AnyTensor& X : {t.Q, t.K, t.V})
      filler.rows(X, [&](Index, Index) { return data.at("all").get<double>(); });
  } else if (data.contains("all V")) {
    V_by_key([&](Index) { return data.at("all V").get<double>(); });
  } else if (data.contains("random")) {
    V_by_key(
        [&](Index j) { return static_cast<double>(static_cast<float>(number(data.at("V"), j))); });
  } else if (data.contains("heads")) {
    filler.rows(t.V, [](Index g, Index) { return g + 1; });
  } else if (data.contains("items")) {
    filler.rows(t.V, [&](Index item, Index) { return item % data.at("items").get<Index>(); });
  } else {
    throw std::runtime_error("unknown data " + data.dump());
  }
  return filler.exact();
}

/// Are all of Q, or none of the keys' random numbers, to be kept from make_inputs?
bool random_queries(const json& data) { return data.is_object() && data.contains("random"); }

/// The mean of V over the keys that query i sees, in closed form: the answer where scores are equal.
double mean(const Problem& p, const AnyTensor& V, Index i) {
  double sum = 0, count = 0;
  for (Index j = 0; j < p.Nkv; ++j)
    if (sees(p, i, j)) {
      sum += static_cast<double>(V.at(0, 0, j, 0));
      ++count;
    }
  return count == 0 ? 0 : sum / count;
}

/// What a case expects of row i of a head; NaN where it says nothing.
double expected_value(const json& run, const Inputs& inputs, Index b, Index h, Index i) {
  const Problem& p = inputs.problem;
  const json& expect = run.at("expect");
  if (expect == "mean") return mean(p, inputs.V.view(), i);
  if (expect == "items")
    return static_cast<double>((b * p.Hq + h) % run.at("data").at("items").get<Index>());
  if (expect.is_number()) return expect.get<double>();
  if (expect.is_array()) return expect.at(static_cast<std::size_t>(i)).get<double>();
  if (expect.contains("heads"))
    return expect.at("heads").at(static_cast<std::size_t>(h)).get<double>();
  const json& rows = expect.at("rows");
  const std::string key = std::to_string(i);
  return rows.contains(key) ? rows.at(key).get<double>() : NAN;
}

/// Six digits of the answer as written, float32 sums of up to Nkv terms, rounding to the type.
double allowed(const Problem& p, double answer) {
  const double u = p.dtype == DType::float32 ? 0 : roundoff_of(p.dtype);
  return 6e-7 + std::abs(answer) * (static_cast<double>(p.Nkv + 8) * 0x1p-24 + u);
}

/// What rounding the weights to 16 bits may add: u of each in the sum over V, and u of each in l.
double weights_allowed(const Problem& p, const AnyTensor& V) {
  float largest = 0;
  for (Index b = 0; b < V.B; ++b)
    for (Index h = 0; h < V.H; ++h)
      for (Index j = 0; j < V.N; ++j) largest = std::max(largest, std::abs(V.at(b, h, j, 0)));
  return 2 * roundoff_of(p.dtype) * static_cast<double>(largest);
}

/// The first thing that is wrong with an output; nothing when it is as the case says.
std::string difference(const json& run,
                       const Variant& variant,
                       const Inputs& inputs,
                       const Output& output) {
  const Problem& p = inputs.problem;
  if (!output.guards_intact()) return "the guard rows around the output were overwritten";
  if (output.unwritten() > 0) return "parts of the output were never written";
  const bool exact = run.value("exact", false), rounded = variant.stage.leeway.P_in_16_bits;
  const double more = rounded ? weights_allowed(p, inputs.V.view()) : 0;
  for (Index b = 0; b < p.B; ++b)
    for (Index h = 0; h < p.Hq; ++h)
      for (Index i = 0; i < p.Nq; ++i) {
        const double answer = expected_value(run, inputs, b, h, i);
        for (Index x = 0; x < p.d && !std::isnan(answer); ++x) {
          const double got = static_cast<double>(output.O().at(b, h, i, x));
          if (exact ? got == answer : std::abs(got - answer) <= allowed(p, answer) + more) continue;
          return fmt::format(
              "O[b={} h={} i={} x={}] = {:.9g}, expected {:.9g}", b, h, i, x, got, answer);
        }
        if (!run.contains("lse")) continue;
        const json& lse = run.at("lse").at(static_cast<std::size_t>(i));
        const double right = lse == "-inf" ? -INFINITY : lse.get<double>();
        const auto got = static_cast<double>(output.LSE()[(b * p.Hq + h) * p.Nq + i]);
        if (got != right && !(std::abs(got - right) <= 2e-6 + (rounded ? roundoff_of(p.dtype) : 0)))
          return fmt::format("LSE[i={}] = {:.9g}, expected {:.9g}", i, got, right);
      }
  return "";
}

/// Every seventh of hundreds where the stages run in the emulator, all elsewhere. 7 divides none of
/// the lists' lengths, so every size and type still occurs.
std::vector<Problem> some_or_all(const std::vector<Problem>& problems) {
  if (suite().on != Suite::On::emulator || problems.size() < 100) return problems;
  std::vector<Problem> some;
  for (std::size_t n = 0; n < problems.size(); n += 7) some.push_back(problems[n]);
  return some;
}

void run_on(const json& run_of_case, const Group& group) {
  const Problem& p = group.p;
  const json& data = run_of_case.at("data");
  Inputs inputs = make_inputs(p, "normal", 1);
  if (!random_queries(data)) Filler(p).rows(inputs.Q.view(), [](Index, Index) { return 0; });
  const bool literal = fill(inputs, data) || run_of_case.at("expect") == "mean";
  INFO(describe(p) << ", " << data.dump());
  if (literal && run_of_case.contains("wrong"))
    for (const json& wrong : run_of_case.at("wrong")) {
      const double right = run_of_case.at("expect").get<double>();
      REQUIRE(std::abs(wrong.get<double>() - right) > 2 * allowed(p, right));
    }
  const bool huge = p.B * p.Hq > 1000;  // one head at a time, the oracle would take long
  const Expected expected = huge ? Expected{} : expect(p, inputs.view());
  for (const Variant& variant : group.variants) {
    INFO(variant.name);
    if (literal)
      CHECK(difference(run_of_case, variant, inputs, run(variant, p, inputs.view())) == "");
    if (!huge) CHECK(check(variant, p, inputs.view(), expected) == "");
  }
}

void run_case(const std::string& id) {
  std::size_t n = 0;
  const json& each = case_named(id);
  INFO(each.at("kind").get<std::string>());
  for (const json& run_of_case : each.at("runs"))
    for (const Problem& p : some_or_all(problems(run_of_case)))
      for (Group& group : by_d(p, in_turn(n++, 7))) {
        group.p.scale = p.scale;  // which the answers depend on, whatever d is
        run_on(run_of_case, group);
      }
}

/// Cases whose inputs can't be written down as data: they have tests of their own, further below.
const std::set<std::string> kApart = {"stale-nan-in-tile-tail", "tile-counts"};

std::set<std::string>& tested() {
  static std::set<std::string> ids;
  return ids;
}
struct Tested {
  explicit Tested(const char* id) { tested().insert(id); }
};

}  // namespace

#define FA_CASE(name, id, tags) \
  static const Tested name{id}; \
  TEST_CASE("Case " id, "[case]" tags) { run_case(id); }

FA_CASE(case_1, "tail-keys-in-softmax", "")
FA_CASE(case_2, "shorter-than-a-tile", "")
FA_CASE(case_3, "scale-from-padded-d", "")
FA_CASE(case_4, "no-visible-key", "[masked]")
FA_CASE(case_5, "first-tile-masked", "[masked]")
FA_CASE(case_6, "running-max-zeroed", "[masked]")
FA_CASE(case_7, "finite-minus-infinity", "[masked]")
FA_CASE(case_8, "masked-huge-v", "[masked]")
FA_CASE(case_9, "causal-alignment", "[masked]")
FA_CASE(case_10, "window-off-by-one", "[masked]")
FA_CASE(case_11, "no-keys", "[masked]")
FA_CASE(case_12, "contracted-fma", "[masked]")
FA_CASE(case_13, "negative-scale", "")
FA_CASE(case_14, "rescale-up-and-down", "")
FA_CASE(case_15, "row-sum-in-16-bit", "")
FA_CASE(case_16, "kv-head-map", "")
FA_CASE(case_17, "grid-limits", "[huge]")  // in the emulator by chosen blocks: emulator.cpp

TEST_CASE("Every case of cases/attention.json has a test") {
  std::set<std::string> in_file;
  for (const json& each : cases()) in_file.insert(each.at("id").get<std::string>());
  CHECK(in_file == tested());
}

TEST_CASE("Case stale-nan-in-tile-tail: rows beyond the last key never matter", "[case][masked]") {
  std::size_t n = 0;
  for (const DType dtype : kAllTypes)
    for (const bool causal : {false, true}) {
      const Problem p = with_mask(one_head(70, 65, 64, dtype), causal);
      const Inputs inputs = make_inputs(p, "normal", 3);
      // K and V in buffers of 300 rows, of which the last 235 hold `beyond`.
      const auto run_with = [&](const Variant& variant, float beyond) {
        const Storage K(dtype, 1, 1, 300, 64), V(dtype, 1, 1, 300, 64);
        Tensors view{inputs.Q.view(), K.view(), V.view()};
        for (Index j = 0; j < 300; ++j)
          for (Index x = 0; x < 64; ++x) {
            set(K.view(), 0, 0, j, x, j < 65 ? inputs.K.view().at(0, 0, j, x) : beyond);
            set(V.view(), 0, 0, j, x, j < 65 ? inputs.V.view().at(0, 0, j, x) : beyond);
          }
        view.K.N = view.V.N = 65;
        return run(variant, p, view);
      };
      for (const Variant& variant : in_turn(n++, 3)) {
        if (!takes(variant, dtype)) continue;
        INFO(variant.name << ", " << describe(p));
        const Output zeros = run_with(variant, 0);
        CHECK(same_bits(run_with(variant, NAN), zeros));
        CHECK(same_bits(run_with(variant, INFINITY), zeros));
        CHECK(same_bits(run(variant, p, inputs.view()), zeros));
      }
    }
}

TEST_CASE("Case tile-counts: any number of tiles is right, with one key more or less", "[case]") {
  // The emulator's order is the same in every run; what another order would change, it reports.
  const int repeats = suite().on == Suite::On::emulator ? 3 : 100;
  for (const Variant& variant : in_turn(0, 3))
    for (const DType dtype : variant.stage.dtypes) {
      const Index chosen = variant.stage.tile_for(one_head(1, 1, 64, dtype), variant.tile).Bc;
      const Index Bc = chosen > 0 ? chosen : 64;
      std::vector<Index> sizes = {Bc / 2, Bc - 1};
      for (Index tiles = 1; tiles <= 5; ++tiles)
        sizes.insert(sizes.end(), {Bc * tiles, Bc * tiles + 1});
      for (const Index Nkv : sizes) {
        const Problem p = one_head(3, Nkv, 64, dtype);
        const Inputs inputs = make_inputs(p, "mean", 1);  // for Q = 0
        Filler(p).rows(inputs.V.view(), [&](Index, Index j) { return j / Bc; });
        INFO(variant.name << ", " << describe(p));
        const Output first = run(variant, p, inputs.view());
        CHECK(difference({{"expect", "mean"}}, variant, inputs, first) == "");
        bool equal = true;
        for (int repeat = 1; repeat < (Nkv % Bc == 1 ? repeats : 2); ++repeat)
          equal = equal && same_bits(run(variant, p, inputs.view()), first);
        CHECK(equal);
      }
    }
}
