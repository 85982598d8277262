// A program that tests the GPU says so where there is none, and exits with 77: skipped. It still
// lists its tests anywhere.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // version 2: listeners
#include <cstdio>
#include <cstdlib>

#include "common/cuda/runtime.hpp"
#include "tests/catch.hpp"

namespace {

using Listener = Catch::EventListenerBase;

struct NeedGpu : Listener {
  using Listener::Listener;

  void testRunStarting(const Catch::TestRunInfo&) override {
    const fa::cuda::Gpu& gpu = fa::cuda::gpu();
    std::puts(gpu.usable ? gpu.text().c_str() : (gpu.problem + ": skipped").c_str());
    std::fflush(stdout);
    if (!gpu.usable) std::_Exit(77);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(NeedGpu)
