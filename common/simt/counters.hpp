// What a kernel asked the hardware for, counted as the hardware counts it: by warp instruction.
#pragma once

#include <cstdint>
#include <string>

namespace fa::simt {

/// name, meaning. The hardware profiler's names for the same (ncu, cc 8.0 to 9.0) are in
/// notes/emulator.md.
#define FA_SIMT_COUNTERS(X)                                                           \
  X(global_load_bytes, "bytes that threads loaded from global memory")                \
  X(global_load_requests, "warp instructions that did")                               \
  X(global_load_sectors, "different 32-byte sectors that these touched")              \
  X(global_store_bytes, "bytes that threads stored to global memory")                 \
  X(global_store_requests, "warp instructions that did")                              \
  X(global_store_sectors, "different 32-byte sectors that these touched")             \
  X(shared_load_requests, "warp instructions that loaded from shared memory")         \
  X(shared_load_wavefronts, "cycles of the shared memory's 32 banks that these took") \
  X(shared_load_conflicts, "of those, the ones that bank conflicts added")            \
  X(shared_store_requests, "warp instructions that stored to shared memory")          \
  X(shared_store_wavefronts, "cycles of the banks that these took")                   \
  X(shared_store_conflicts, "of those, the ones that bank conflicts added")           \
  X(ldmatrix_requests, "ldmatrix instructions, by warp")                              \
  X(ldmatrix_wavefronts, "cycles of the banks that these took")                       \
  X(ldmatrix_conflicts, "of those, the ones that bank conflicts added")               \
  X(async_copy_bytes, "bytes that cp.async read from global memory")                  \
  X(async_copy_requests, "cp.async instructions, by warp")                            \
  X(async_copy_sectors, "different 32-byte sectors that these read")                  \
  X(async_copy_wavefronts, "cycles of the banks that their writes took")              \
  X(async_copy_conflicts, "of those, the ones that bank conflicts added")             \
  X(mma, "mma.m16n8k16 instructions, by warp (4,096 FLOP each)")                      \
  X(exponentials, "exponentials, by thread")                                          \
  X(shuffles, "shuffles, by warp")                                                    \
  X(votes, "votes, by warp")                                                          \
  X(warp_barriers, "__syncwarp, by warp")                                             \
  X(block_barriers, "__syncthreads, by block")

/// Of words that few kernels have, shown where they aren't 0: name, meaning.
#define FA_SIMT_RARE_COUNTERS(X)                                  \
  X(tma_bytes, "bytes that TMA read from global memory")          \
  X(tma_copies, "copies of tiles by TMA")                         \
  X(tma_sectors, "32-byte sectors that their rows touched")       \
  X(tma_store_bytes, "bytes that TMA wrote to global memory")     \
  X(tma_stores, "stores of pages by TMA")                         \
  X(tma_store_sectors, "32-byte sectors that their rows touched") \
  X(mbarrier_arrivals, "arrivals at mbarriers, by thread")        \
  X(mbarrier_waits, "waits at mbarriers, by warp")                \
  X(shared_atomics, "arrivals at counters, by thread")

struct Counters {
#define FA_SIMT_FIELD(name, meaning) std::uint64_t name = 0;
  FA_SIMT_COUNTERS(FA_SIMT_FIELD)
  FA_SIMT_RARE_COUNTERS(FA_SIMT_FIELD)
#undef FA_SIMT_FIELD

  Counters& operator+=(const Counters& other);

  /// A table of those that aren't 0, with what they mean.
  std::string text() const;
};

/// The addresses of one warp instruction.
struct WarpAccess {
  int bytes = 4;         // that each lane accesses: 1, 2, 4, 8 or 16
  int lanes = 0;         // lanes that take part
  int lane[32];          // which, in ascending order
  std::uint64_t at[32];  // where each begins, in bytes; a multiple of `bytes`
};

/// Cycles of the shared memory, and how many of them bank conflicts added.
struct Wavefronts {
  int all = 0;
  int conflicts = 0;
};

/// Shared memory has 32 banks of 4 bytes; a cycle serves one 4-byte word a bank, to any number of
/// lanes. Accesses of 8 bytes go half a warp at a time, those of 16 bytes a quarter; a part in
/// which no lane takes part costs nothing.
Wavefronts shared_wavefronts(const WarpAccess& access);

/// Different 32-byte sectors that the lanes touch together.
int global_sectors(const WarpAccess& access);

}  // namespace fa::simt
