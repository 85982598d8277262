#include "common/harness/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/harness/units.hpp"
#include "common/io/npy.hpp"
#include "common/io/safetensors.hpp"

namespace fa {

namespace {

/// A tensor from a file, and what to call it in messages.
struct Named {
  std::string name;  // "q", or the .npy file's name
  Storage data;

  std::string shape() const {
    const AnyTensor& X = data.view();
    return fmt::format("{} [{}, {}, {}, {}]", name, X.B, X.H, X.N, X.d);
  }
};

struct Loaded {
  Named Q, K, V;
  std::optional<bool> causal;  // as the file says
  std::optional<Window> window;
  std::optional<float> scale;
};

std::optional<bool> causal_in(const SafetensorsFile& file) {
  const auto found = file.metadata.find("causal");
  if (found == file.metadata.end()) return std::nullopt;
  if (found->second == "true") return true;
  if (found->second == "false") return false;
  throw Refused(fmt::format(
      "{}: metadata causal is '{}': must be 'true' or 'false'", file.name, found->second));
}

std::optional<Window> window_in(const SafetensorsFile& file) {
  const auto found = file.metadata.find("window");
  if (found == file.metadata.end()) return std::nullopt;
  if (const std::optional<Window> window = parse_window(found->second)) return window;
  throw Refused(fmt::format(
      "{}: metadata window is '{}': must be 'L,R', two integers from 0 to 2^48, or -1 for "
      "no bound",
      file.name,
      found->second));
}

std::optional<float> scale_in(const SafetensorsFile& file) {
  const auto found = file.metadata.find("scale");
  if (found == file.metadata.end()) return std::nullopt;
  char* end = nullptr;
  const float scale = std::strtof(found->second.c_str(), &end);
  if (found->second.empty() || *end != '\0' || !std::isfinite(scale))
    throw Refused(fmt::format(
        "{}: metadata scale is '{}': must be a finite number", file.name, found->second));
  return scale;
}

Loaded load_safetensors(const Options& options) {
  SafetensorsFile file = read_safetensors(options.input, {"q", "k", "v"});
  const auto take = [&](const char* name) {
    require(file, name);
    return Named{name, std::move(file.tensors.at(name))};
  };
  return {take("q"), take("k"), take("v"), causal_in(file), window_in(file), scale_in(file)};
}

Loaded load_npy(const Options& options, std::vector<std::string>& notes) {
  const auto take = [&](const std::string& path) {
    std::string note;
    Storage data = read_npy(path, &note);
    if (!note.empty()) notes.push_back(note);
    return Named{path, std::move(data)};
  };
  return {take(options.q), take(options.k), take(options.v), {}, {}, {}};
}

/// Converts X to `dtype` where it has another one.
void convert(Named& X, DType dtype, std::vector<std::string>& notes) {
  const AnyTensor from = X.data.view();
  if (from.dtype == dtype) return;
  Storage to(dtype, from.B, from.H, from.N, from.d);
  Index overflowed = 0;
  dispatch(from.dtype, [&](auto zero_from) {
    dispatch(dtype, [&](auto zero_to) {
      using From = decltype(zero_from);
      using To = decltype(zero_to);
      const From* source = static_cast<const From*>(from.data);
      To* destination = static_cast<To*>(to.view().data);
      for (Index e = 0; e < from.elements(); ++e) {
        const float value = static_cast<float>(source[e]);
        destination[e] = To(value);
        overflowed += std::isfinite(value) && !std::isfinite(static_cast<float>(destination[e]));
      }
    });
  });
  X.data = std::move(to);
  std::string note =
      fmt::format("{} converted from {} to {}", X.name, name_of(from.dtype), name_of(dtype));
  if (overflowed > 0)
    note += fmt::format("; {} of {} values lie beyond its range and became infinite",
                        count_text(overflowed),
                        count_text(from.elements()));
  notes.push_back(note);
}

void require_agreement(const std::string& prefix, const Named& a, const Named& b, bool whole) {
  const AnyTensor &A = a.data.view(), &B = b.data.view();
  if (A.dtype != B.dtype)
    throw Refused(fmt::format("{}{} is {} and {} is {}: the types must agree (--dtype converts)",
                              prefix,
                              a.name,
                              name_of(A.dtype),
                              b.name,
                              name_of(B.dtype)));
  if (whole && (A.B != B.B || A.H != B.H || A.N != B.N || A.d != B.d))
    throw Refused(
        fmt::format("{}{} and {}: the shapes must be the same", prefix, a.shape(), b.shape()));
  if (A.B != B.B || A.d != B.d)
    throw Refused(fmt::format("{}{} and {}: the first and the last size, B and d, must be the same",
                              prefix,
                              a.shape(),
                              b.shape()));
}

void apply_mask(const Options& options, Problem& p) {
  p.causal = options.causal.value_or(p.causal);
  if (options.window) {
    p.window_left = options.window->left;
    p.window_right = options.window->right;
  }
  p.scale = options.scale.value_or(p.scale);
}

}  // namespace

Problem problem_from(const Options& options, const Stage& stage) {
  Problem p;
  p.B = options.B;
  p.Hq = options.Hq;
  p.Hkv = options.Hkv;
  p.Nq = options.Nq;
  p.Nkv = options.Nkv;
  p.d = options.d;
  p.dtype = options.dtype.value_or(stage.dtypes.front());
  p.scale = default_scale(p.d);
  apply_mask(options, p);
  return p;
}

Inputs load(const Options& options, const Stage& stage, std::vector<std::string>& notes) {
  const bool one_file = !options.input.empty();
  Loaded loaded = one_file ? load_safetensors(options) : load_npy(options, notes);
  for (Named* X : {&loaded.Q, &loaded.K, &loaded.V}) {
    const bool taken =
        std::count(stage.dtypes.begin(), stage.dtypes.end(), X->data.view().dtype) > 0;
    if (options.dtype)
      convert(*X, *options.dtype, notes);
    else if (!taken)
      convert(*X, stage.dtypes.front(), notes);
  }
  const std::string prefix = one_file ? options.input + ": " : "";
  require_agreement(prefix, loaded.Q, loaded.K, false);
  require_agreement(prefix, loaded.K, loaded.V, true);

  const AnyTensor &Q = loaded.Q.data.view(), &K = loaded.K.data.view();
  Problem p;
  p.B = Q.B;
  p.Hq = Q.H;
  p.Hkv = K.H;
  p.Nq = Q.N;
  p.Nkv = K.N;
  p.d = Q.d;
  p.dtype = Q.dtype;
  p.causal = loaded.causal.value_or(false);
  if (loaded.window) {
    p.window_left = loaded.window->left;
    p.window_right = loaded.window->right;
  }
  p.scale = loaded.scale.value_or(default_scale(p.d));
  apply_mask(options, p);
  try {
    validate(p);
  } catch (const Refused& refused) {
    throw Refused(prefix + refused.what());
  }
  return {p, std::move(loaded.Q.data), std::move(loaded.K.data), std::move(loaded.V.data)};
}

}  // namespace fa
