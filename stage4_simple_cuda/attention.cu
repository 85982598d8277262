// Launches stage 4's kernel. nvcc compiles this file for the GPU, a C++ compiler for the emulator.
#include "attention.hpp"

#include "common/attention/instantiate.hpp"
#include "common/attention/problem.hpp"
#include "kernel.cuh"

namespace stage4 {
inline namespace FA_TARGET {

template <class T, int D>
void launch_for(Tensor<const T> Q,
                Tensor<const T> K,
                Tensor<const T> V,
                Tensor<T> O,
                float* LSE,
                float scale,
                const Mask& mask) {
  const Index rows = Q.B * Q.H * Q.N, tiles = (Q.N + TileOf<D>::Br - 1) / TileOf<D>::Br;
  const Index blocks = Q.B * Q.H * tiles;
  if (blocks > 0x7fffffff)
    throw Refused("B * Hq * Nq is too large: stage 4 takes at most 2^31 - 1 tiles of " +
                  std::to_string(TileOf<D>::Br) + " queries, these are " + std::to_string(blocks));
  launch<attention_kernel<T, D>>(dim3(static_cast<unsigned>(blocks)),
                                 dim3(TileOf<D>::threads),
                                 TileOf<D>::shared_bytes,
                                 global("Q", Q),
                                 global("K", K),
                                 global("V", V),
                                 global("O", O),
                                 global("LSE", LSE, rows),
                                 scale,
                                 mask);
}

template <class T>
void attention(Tensor<const T> Q,
               Tensor<const T> K,
               Tensor<const T> V,
               Tensor<T> O,
               float* LSE,
               float scale,
               const Mask& mask) {
  if (Q.d > 256)
    throw Refused("d = " + std::to_string(Q.d) + ": stage 4 takes head dimensions up to 256");
  if (Q.B * Q.H * Q.N == 0) return;
  const auto run = Q.d <= 64    ? launch_for<T, 64>
                   : Q.d <= 128 ? launch_for<T, 128>
                                : launch_for<T, 256>;
  run(Q, K, V, O, LSE, scale, mask);
}

FA_INSTANTIATE_FOR_EVERY_TYPE(attention)

}  // namespace FA_TARGET
}  // namespace stage4
