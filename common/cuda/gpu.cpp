#include <string>

#include "common/cuda/runtime.hpp"

namespace fa::cuda {

namespace {

std::string dotted(int cc) { return std::to_string(cc / 10) + "." + std::to_string(cc % 10); }

}  // namespace

std::string Gpu::text() const {
  const std::string code = code_cc < cc ? ", code for cc " + dotted(code_cc) : "";
  return name + " (cc " + dotted(cc) + code + ")";
}

std::string Gpu::lacks(int needed) const {
  if (code_cc >= needed) return "";
  if (cc < needed) return "a GPU of cc " + dotted(needed) + " or later";
  return "code for cc " + dotted(needed) + " (configure with -DCMAKE_CUDA_ARCHITECTURES=native)";
}

}  // namespace fa::cuda
