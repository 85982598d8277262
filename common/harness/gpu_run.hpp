// A job on the GPU: Q, K, V and the poisoned output go there, the kernel runs under its clock, the
// output comes back.
#pragma once

#include "common/cuda/runtime.hpp"
#include "common/harness/stage.hpp"

namespace fa {

namespace detail {

/// Elements from a tensor's first to its last, gaps between rows included.
inline Index span(const AnyTensor& X) {
  if (X.elements() == 0) return 0;
  return (X.B - 1) * X.batch_stride + (X.H - 1) * X.head_stride + (X.N - 1) * X.row_stride + X.d;
}

/// A tensor's copy on the GPU, with the same strides.
class OnGpu {
 public:
  explicit OnGpu(const AnyTensor& X)
      : memory_(static_cast<std::size_t>(span(X) * bytes_of(X.dtype))), view_(X) {
    memory_.copy_from_host(X.data);
    view_.data = memory_.data();
  }
  const AnyTensor& view() const { return view_; }
  void copy_back(const AnyTensor& X) const { memory_.copy_to_host(X.data); }

 private:
  cuda::DeviceMemory memory_;
  AnyTensor view_;
};

}  // namespace detail

/// Calls attention(Q, K, V, O, LSE) with tensors on the GPU.
template <class Attention>
RunFacts on_gpu(const Job& job, Attention attention) {
  const Problem& p = job.problem;
  const detail::OnGpu Q(job.Q), K(job.K), V(job.V), O(job.O);
  const std::size_t lse_bytes = static_cast<std::size_t>(p.B * p.Hq * p.Nq) * sizeof(float);
  cuda::DeviceMemory LSE(lse_bytes);
  LSE.copy_from_host(job.LSE);
  RunFacts facts;
  facts.device = cuda::gpu().text();
  cuda::DeviceTimer timer;
  timer.start();
  attention(Q.view(), K.view(), V.view(), O.view(), static_cast<float*>(LSE.data()));
  facts.seconds = timer.stop();
  O.copy_back(job.O);
  LSE.copy_to_host(job.LSE);
  return facts;
}

}  // namespace fa
