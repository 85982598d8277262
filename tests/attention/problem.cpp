// Counting and refusing.
#include "common/attention/problem.hpp"

#include <limits>

#include "tests/catch.hpp"

using namespace fa;

namespace {

/// What validate() says; nothing if it accepts.
std::string refusal(const Problem& p) {
  try {
    validate(p);
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "";
}

Problem good() {
  Problem p;
  p.Nq = p.Nkv = 4;
  return p;
}

template <class Change>
std::string refusal_after(Change change) {
  Problem p = good();
  change(p);
  return refusal(p);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("FLOP count the visible pairs only, exactly") {
  Problem p = good();
  p.B = 2;
  p.Hq = p.Hkv = 16;
  p.Nq = p.Nkv = 1024;
  p.d = 64;
  CHECK(p.flop() == 8'589'934'592.0);
  p.causal = true;
  CHECK(p.flop() == 4'299'161'600.0);
  CHECK(p.visible_pairs() == 32.0 * 1024 * 1025 / 2);
  p.window_left = 0;
  CHECK(p.visible_pairs() == 32.0 * 1024);
}

TEST_CASE("Rows that see no key count nothing") {
  Problem p = good();
  p.Nq = 5;
  p.Nkv = 2;
  p.causal = true;
  CHECK(p.visible_pairs() == 3);
  p.Nkv = 0;
  CHECK(p.flop() == 0);
}

TEST_CASE("A right problem is accepted, empty ones too") {
  CHECK(refusal(good()) == "");
  CHECK(refusal_after([](Problem& p) { p.Nq = 0; }) == "");
  CHECK(refusal_after([](Problem& p) { p.Nkv = 0; }) == "");
  CHECK(refusal_after([](Problem& p) { p.Hq = 12, p.Hkv = 3; }) == "");
  CHECK(refusal_after([](Problem& p) { p.scale = -1; }) == "");
  CHECK(refusal_after([](Problem& p) { p.window_left = 0, p.window_right = 1 << 30; }) == "");
}

TEST_CASE("Heads that don't divide are refused, both numbers in the message") {
  for (const auto& [Hq, Hkv] : {std::pair<Index, Index>{33, 2}, {3, 2}, {2, 4}}) {
    const std::string message =
        refusal_after([q = Hq, kv = Hkv](Problem& p) { p.Hq = q, p.Hkv = kv; });
    CHECK(has(message, "Hq = " + std::to_string(Hq)));
    CHECK(has(message, "Hkv = " + std::to_string(Hkv)));
    CHECK(has(message, "multiple"));
  }
}

TEST_CASE("No KV head at all is refused, both numbers in the message") {
  const std::string message = refusal_after([](Problem& p) { p.Hq = 4, p.Hkv = 0; });
  CHECK(has(message, "Hkv = 0"));
  CHECK(has(message, "4"));
}

TEST_CASE("What is refused is named with its value and what is allowed, in one line") {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, std::string>> messages = {
      {refusal_after([](Problem& p) { p.B = 0; }), "B = 0"},
      {refusal_after([](Problem& p) { p.B = -3; }), "B = -3"},
      {refusal_after([](Problem& p) { p.Hq = 0; }), "Hq = 0"},
      {refusal_after([](Problem& p) { p.Nq = -1; }), "Nq = -1"},
      {refusal_after([](Problem& p) { p.Nkv = -7; }), "Nkv = -7"},
      {refusal_after([](Problem& p) { p.d = 0; }), "d = 0"},
      {refusal_after([=](Problem& p) { p.scale = nan; }), "scale = nan"},
      {refusal_after([=](Problem& p) { p.scale = inf; }), "scale = inf"},
      {refusal_after([](Problem& p) { p.window_left = -2; }), "left = -2"},
      {refusal_after([](Problem& p) { p.window_right = -2; }), "right = -2"},
      {refusal_after([](Problem& p) { p.Nq = std::numeric_limits<Index>::max(); }),
       "Nq = 9223372036854775807"},
      {refusal_after([](Problem& p) { p.B = p.Nkv = p.d = Index{1} << 40; }), "elements"},
  };
  for (const auto& [message, part] : messages) {
    INFO("expected '" << part << "' in '" << message << "'");
    CHECK(has(message, part));
    CHECK((has(message, "must be") || has(message, "allowed")));
    CHECK(!has(message, "\n"));
  }
}

TEST_CASE("The default scale comes from the true head dimension") {
  CHECK(default_scale(64) == 0.125f);
  CHECK(std::abs(static_cast<double>(default_scale(72)) - 0.11785113019775793) < 1e-8);
}
