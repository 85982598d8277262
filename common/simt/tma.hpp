// mbarriers, and copies of tiles by TMA, in the emulator. What the words mean stands beside those for
// the GPU, in common/cuda/gpu.cuh; when a copy lands here, in notes/emulator.md.
#pragma once

#include "common/cuda/tile_map.hpp"
#include "common/simt/warp.hpp"

namespace fa::simt {

#define FA_SIMT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct alignas(8) Mbarrier {
  std::uint64_t state;
};

inline void mbarrier_init(Shared<Mbarrier> b, int arrivals, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (b.inside<Mbarrier>(here, Access::store))
    hot.worker->init_mbarrier(b.byte(0), arrivals, here.site());
}
inline void mbarrier_arrive(Shared<Mbarrier> b, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (b.inside<Mbarrier>(here, Access::store)) hot.worker->arrive(b.byte(0), 0, here.site());
}
inline void mbarrier_arrive_expect(Shared<Mbarrier> b, int bytes, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (b.inside<Mbarrier>(here, Access::store)) hot.worker->arrive(b.byte(0), bytes, here.site());
}
inline void mbarrier_wait(Shared<Mbarrier> b, int parity, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (b.inside<Mbarrier>(here, Access::load))
    hot.worker->wait_at_mbarrier(b.byte(0), parity, here.site());
}
inline void mbarrier_wait_together(Shared<Mbarrier> b, int parity, FA_SIMT_HERE) {
  mbarrier_wait(b, parity, file, line);
  impl::Exchange mine;  // a vote, of which nobody asks the result
  meet({"mbarrier_wait_together", &impl::ballot, kAllLanes, site_of(file, line), &mine});
}

inline int arrive_at(Shared<int> counter, FA_SIMT_HERE) {
  const At here(0, file, line);
  if (!counter.inside<int>(here, Access::store)) return 0;
  return hot.worker->add_one(counter.byte(0), here.site());
}

inline void fence_proxy_async(FA_SIMT_HERE) { hot.worker->fence_proxy(site_of(file, line)); }

template <class T>
struct TileMap {
  GlobalTensor<T> X;
  int rows = 0, pages = 0;  // of a box
};

template <class T>
TileMap<T> tile_map(const char* name, const Tensor<T>& X, int rows, int columns) {
  require_tile_map(name, X, rows, columns);
  return {global(name, X), rows, pages_of_box<T>(columns)};
}

template <class T>
void tma_load(SharedTile<T, 64> to,
              const TileMap<const T>& map,
              Index row,
              Index head,
              Index batch,
              Shared<Mbarrier> done,
              FA_SIMT_HERE) {
  const At here(0, file, line);
  if (!done.inside<Mbarrier>(here, Access::store)) return;
  TileCopy copy;
  copy.rows = map.rows;
  copy.pages = map.pages;
  copy.to = to.byte();
  copy.fits = to.fits(Index{map.rows} * copy.pages, 1024, Access::store, here);
  copy.N = map.X.N;
  copy.row = row;
  copy.row_bytes = map.X.row_stride * Index{sizeof(T)};
  const GlobalTensor<const T>& X = map.X;
  if (0 <= head && head < X.H && 0 <= batch && batch < X.B && X.N > 0) {
    copy.from = X.head(batch, head).data.address(0);
    copy.address = X.head(batch, head).data.virtual_address(0);
  }
  copy.site = here.site();
  hot.worker->copy_tile(copy, done.byte(0));
}

template <class T>
void tma_store(const TileMap<T>& map,
               SharedTile<T, 64> from,
               Index page,
               Index row,
               Index head,
               Index batch,
               FA_SIMT_HERE) {
  static_assert(!std::is_const_v<T>, "a map for stores is one of a Tensor<T>");
  const At here(0, file, line);
  PageStore store;
  store.rows = map.rows;
  store.from = from.byte();
  store.fits = from.fits(map.rows, 1024, Access::load, here);
  store.row = row;
  store.below_0 = page < 0 || row < 0 || head < 0 || batch < 0;
  store.row_bytes = map.X.row_stride * Index{sizeof(T)};
  const GlobalTensor<T>& X = map.X;
  if (!store.below_0 && head < X.H && batch < X.B && page < X.d / 64) {
    store.N = X.N;
    store.to = X.head(batch, head).data.address(64 * page);
    store.address = X.head(batch, head).data.virtual_address(64 * page);
  }
  store.site = here.site();
  hot.worker->store_page(store);
}
inline void tma_store_wait(FA_SIMT_HERE) { hot.worker->wait_for_stores(site_of(file, line)); }

#undef FA_SIMT_HERE

}  // namespace fa::simt
