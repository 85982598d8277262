#include "tests/probes.hpp"

#include <map>

namespace fa {

namespace {

struct Probe {
  std::string name;
  std::string pattern;
  Problem problem;
};

/// Two query heads a KV head, more keys than queries, sizes that no tile divides.
Problem ragged(DType dtype) {
  Problem p = one_head(70, 601, 40, dtype);
  p.Hq = 4;
  p.Hkv = 2;
  return p;
}

std::vector<Probe> probes(DType dtype) {
  const Problem p = ragged(dtype);
  Problem more_queries = p;
  more_queries.Nq = 150;
  more_queries.Nkv = 101;
  return {
      {"random", "normal", p},
      {"random causal", "normal", with_mask(p, true)},
      {"stairs-up", "stairs-up", p},
      {"stairs-down", "stairs-down", p},
      {"all-low", "all-low", p},
      {"long-tail", "long-tail", p},
      {"random window", "normal", with_mask(more_queries, false, 20, 9)},
  };
}

struct Prepared {
  Probe probe;
  Inputs inputs;
  Expected expected;
};

/// Inputs and right answers, made once a type: mutants by the dozen run on them.
const std::vector<Prepared>& prepared(DType dtype) {
  static std::map<DType, std::vector<Prepared>> all;
  std::vector<Prepared>& mine = all[dtype];
  if (mine.empty())
    for (const Probe& probe : probes(dtype)) {
      Inputs inputs = make_inputs(probe.problem, probe.pattern, 2026);
      Expected expected = expect(probe.problem, inputs.view());
      mine.push_back({probe, std::move(inputs), std::move(expected)});
    }
  return mine;
}

}  // namespace

const std::vector<std::string>& probe_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Probe& probe : probes(DType::float32)) result.push_back(probe.name);
    return result;
  }();
  return names;
}

std::vector<Failure> run_probes(const Stage& stage, Tile tile, DType dtype) {
  const Variant variant{stage.name, stage, tile};
  std::vector<Failure> failures;
  for (const Prepared& each : prepared(dtype)) {
    const std::string failure =
        check(variant, each.probe.problem, each.inputs.view(), each.expected);
    if (!failure.empty()) failures.push_back({each.probe.name, failure});
  }
  return failures;
}

}  // namespace fa
