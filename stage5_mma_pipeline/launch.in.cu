// Launches step @FA_STEP@'s kernel. Generated from stage5_mma_pipeline/launch.in.cu, once a step;
// nvcc compiles it for the GPU, a C++ compiler for the emulator.
#include "@FA_STEP_HEADER@"

#include <string>

#include "common/attention/instantiate.hpp"
#include "common/attention/problem.hpp"
#include "stage5_mma_pipeline/step2.hpp"
#include "@FA_STEP_KERNEL@"

namespace stage5::@FA_STEP_NAMESPACE@ {
inline namespace FA_TARGET {

/// Must rows of Q, K and V begin at multiples of 16 bytes, and those of O?
constexpr bool kLoadsInPieces = @FA_LOADS_IN_PIECES@, kStoresInPieces = @FA_STORES_IN_PIECES@;
/// The most rows of a head that 32 bits count with room to spare.
constexpr Index kMostRows = Index{1} << 28;

/// Rows less than that apart: 128 of them, the most that a block copies at a time, are in reach of 32 bits.
constexpr Index kMostStride = Index{1} << 24;

/// Does every row of X begin at a multiple of 16 bytes, and consist of whole pieces? And do rows lie
/// less than kMostStride elements apart?
template <class T>
bool in_pieces(const Tensor<T>& X) {
  constexpr Index piece = 16 / sizeof(T);
  return reinterpret_cast<std::uintptr_t>(X.data) % 16 == 0 && X.d % piece == 0 &&
         X.row_stride % piece == 0 && X.row_stride < kMostStride && X.head_stride % piece == 0 &&
         X.batch_stride % piece == 0;
}

template <int D>
constexpr fa::Tile kTile = @FA_TILE@;

template <auto kernel, int D, class T>
void launch_blocks(Tensor<const T> Q,
                   Tensor<const T> K,
                   Tensor<const T> V,
                   Tensor<T> O,
                   float* LSE,
                   float scale,
                   const Mask& mask) {
  constexpr Index i_tile = kTile<D>.Br;  // queries a block
  const Index rows = Q.B * Q.H * Q.N, blocks = Q.B * Q.H * ((Q.N + i_tile - 1) / i_tile);
  if (blocks > 0x7fffffff)
    throw Refused("B * Hq * Nq is too large: stage 5 takes at most 2^31 - 1 tiles of " +
                  std::to_string(i_tile) + " queries, these are " + std::to_string(blocks));
  launch<kernel>(dim3(static_cast<unsigned>(blocks)),
                 dim3(kThreads),
                 kSharedBytes<D>,
                 global("Q", Q),
                 global("K", K),
                 global("V", V),
                 global("O", O),
                 global("LSE", LSE, rows),
                 scale,
                 mask
#if @FA_TMA@
                 ,
                 TileMaps<T>{tile_map("Q", Q, Shape<D>::Br, D),
                             tile_map("K", K, Shape<D>::kStage, D),
                             tile_map("V", V, Shape<D>::kStage, D),
                             tile_map("O", O, Shape<D>::kRows, D)}
#endif
  );
}

template <int D, class T>
void launch_for(Tensor<const T> Q,
                Tensor<const T> K,
                Tensor<const T> V,
                Tensor<T> O,
                float* LSE,
                float scale,
                const Mask& mask) {
#if @FA_CONTIGUOUS@
  const bool contiguous = Q.d == D && Q.row_stride == D && K.row_stride == D && V.row_stride == D &&
                          O.row_stride == D;
  if (contiguous)
    launch_blocks<attention_kernel<T, D, true>, D>(Q, K, V, O, LSE, scale, mask);
  else
    launch_blocks<attention_kernel<T, D, false>, D>(Q, K, V, O, LSE, scale, mask);
#else
  launch_blocks<attention_kernel<T, D>, D>(Q, K, V, O, LSE, scale, mask);
#endif
}

template <class T>
bool takes([[maybe_unused]] Tensor<const T> Q,
           [[maybe_unused]] Tensor<const T> K,
           [[maybe_unused]] Tensor<const T> V,
           [[maybe_unused]] Tensor<T> O) {
  return (!kLoadsInPieces || (in_pieces(Q) && in_pieces(K) && in_pieces(V))) &&
         (!kStoresInPieces || in_pieces(O));
}

fa::Tile default_tile(Index d) {
  if (kLoadsInPieces && d % 8 != 0) return step2::default_tile(d);
  @FA_TILE_BY_D@
}

fa::Index rows_at_a_time([[maybe_unused]] Index d) {
  @FA_ROWS_BY_D@
}

template <class T>
void attention(Tensor<const T> Q,
               Tensor<const T> K,
               Tensor<const T> V,
               Tensor<T> O,
               float* LSE,
               float scale,
               const Mask& mask) {
  if constexpr (dtype_of<T> == DType::float32) {
    throw Refused("float32: stage 5 takes float16 and bfloat16 (--dtype float16 rounds the input)");
  } else {
    if (Q.B * Q.H * Q.N == 0) return;
    if (!takes_d(Q.d))
      throw Refused("d = " + std::to_string(Q.d) +
                    ": step @FA_STEP@ of stage 5 takes head dimensions @FA_DIMENSIONS@");
    if (Q.N > kMostRows || K.N > kMostRows)
      throw Refused("Nq = " + std::to_string(Q.N) + ", Nkv = " + std::to_string(K.N) +
                    ": stage 5 takes at most 2^28 queries and keys a head");
    if (!takes(Q, K, V, O)) {
      if (Q.d > 128)
        throw Refused("d = " + std::to_string(Q.d) +
                      ", and rows that don't begin at multiples of 16 bytes or lie 2^24 elements"
                      " apart: step @FA_STEP@ of stage 5 takes such rows up to d = 128");
      return step2::attention<T>(Q, K, V, O, LSE, scale, mask);
    }
    @FA_LAUNCH_BY_D@
  }
}

@FA_INSTANTIATE@

}  // namespace FA_TARGET
}  // namespace stage5::@FA_STEP_NAMESPACE@
