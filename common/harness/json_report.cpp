#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/harness/report.hpp"

namespace fa {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<Index>(value);
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// A float32 with the fewest digits that tell it from its neighbours: 0.1, not 0.10000000149011612.
Json number(float value) { return number(std::stod(fmt::format("{}", value))); }

Json element_json(const Element& e) {
  Json json = {{"where", name_of(e)}, {"b", e.b}, {"h", e.h}, {"i", e.i}};
  if (e.x >= 0) json["x"] = e.x;
  json["got"] = number(e.got);
  json["expected"] = number(e.expected);
  json["tolerance"] = number(e.tolerance);
  return json;
}

Json comparison_json(const Comparison& c) {
  Json json = {{"compared", c.compared},
               {"wrong", c.wrong},
               {"wrong_nonfinite", c.wrong_nonfinite},
               {"excused", c.excused},
               {"max_error", number(c.max_error)},
               {"max_error_over_tolerance", number(c.worst_ratio)},
               {"worst", c.compared > 0 ? element_json(c.worst) : Json()}};
  if (c.wrong > 0) json["first_wrong"] = element_json(c.first_wrong);
  return json;
}

Json queries_json(const Sample& sample, Index Nq) {
  const Index count = sample.all() ? Nq : static_cast<Index>(sample.queries.size());
  return {{"compared", count}, {"of", Nq}, {"random", sample.random}};
}

Json timing_json(const Timing& timing) {
  return {{"median", number(timing.median())},
          {"runs", timing.seconds},
          {"warmed_up", timing.warmed_up}};
}

Json oracle_json(const Facts& f) {
  const OracleCheck& check = f.oracle;
  Json json = {{"right", check.ok()},
               {"queries", queries_json(f.compared, f.problem.Nq)},
               {"O", comparison_json(check.O)},
               {"LSE", comparison_json(check.LSE)}};
  json["rule_16_bit"] = check.rule.applies ? Json{{"right", check.rule.ok()},
                                                  {"max_error", number(check.rule.max_error)},
                                                  {"allowed", number(check.rule.allowed)}}
                                           : Json();
  json["unwritten"] = check.unwritten;
  json["guards_intact"] = check.guards_intact;
  return json;
}

Json previous_json(const Facts& f) {
  if (!f.previous) return nullptr;
  const PreviousFacts& before = *f.previous;
  Json json = {{"number", before.number}, {"name", before.name}};
  if (!before.step.empty()) json["step"] = before.step;
  json.update({{"right", before.difference.ok()},
               {"queries", queries_json(before.compared, f.problem.Nq)},
               {"difference", comparison_json(before.difference)},
               {"time_s", nullptr},
               {"speed_up", nullptr},
               {"extra_memory_bytes", nullptr}});
  if (before.run.all) {
    json["time_s"] = timing_json(before.run.timing);
    if (f.timing.median() > 0 && !f.timing.facts.emulated)
      json["speed_up"] = number(before.run.timing.median() / f.timing.median());
    json["extra_memory_bytes"] = before.run.timing.extra_bytes;
  }
  return json;
}

Json facts_json(const Facts& f) {
  const Problem& p = f.problem;
  Json json = {{"stage", {{"number", f.number}, {"name", f.name}, {"title", f.title}}}};
  if (!f.step.empty()) json["stage"].update({{"step", f.step}, {"adds", f.adds}});
  json["problem"] = {{"B", p.B},
                     {"Hq", p.Hq},
                     {"Hkv", p.Hkv},
                     {"Nq", p.Nq},
                     {"Nkv", p.Nkv},
                     {"d", p.d},
                     {"dtype", name_of(p.dtype)},
                     {"causal", p.causal},
                     {"window", {p.window_left, p.window_right}},
                     {"scale", number(p.scale)}};
  json["input"] = f.input;
  json["device"] = f.timing.facts.device.empty() ? "cpu" : f.timing.facts.device;
  json["emulated"] = f.timing.facts.emulated;
  json["threads"] = f.threads;
  json["tile"] = f.tile.Br > 0 ? Json{f.tile.Br, f.tile.Bc} : Json();
  json["time_s"] = timing_json(f.timing);
  json["visible_pairs"] = number(p.visible_pairs());
  json["flop"] = number(p.flop());
  json["gflop_per_s"] = f.timing.facts.emulated ? Json() : number(f.gflop_per_s());
  json["extra_memory_bytes"] = f.timing.extra_bytes;
  json["extra_memory_bytes_by_formula"] = number(f.cost.scratch_bytes);
  const bool counted = f.timing.facts.global_bytes >= 0;
  json["traffic_bytes"] = number(counted ? f.timing.facts.global_bytes : f.cost.traffic_bytes);
  json["traffic_bytes_by_formula"] = number(f.cost.traffic_bytes);
  json["traffic_source"] = counted ? "counted" : "formula";
  json["counts"] = nullptr;
  for (const auto& [name, count] : f.timing.facts.counts) json["counts"][name] = count;
  json["oracle"] = oracle_json(f);
  json["previous"] = previous_json(f);
  json["output"] = f.output.empty() ? Json() : Json(f.output);
  json["notes"] = f.notes;
  json["right"] = f.right();
  json["failure"] = f.right() ? Json() : Json(f.failure());
  return json;
}

/// On one line. File names need not be UTF-8.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_report(const Facts& facts) { return dumped(facts_json(facts)); }

std::string ladder_json(const std::vector<Facts>& steps, const std::vector<std::string>& left_out) {
  Json json;
  bool right = true;
  for (const Facts& facts : steps) {
    json["steps"].push_back(facts_json(facts));
    right = right && facts.right();
  }
  json["left_out"] = left_out;
  json["right"] = right;
  return dumped(json);
}

}  // namespace fa
