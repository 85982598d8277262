// The extra memory of a stage: whatever it needs beyond Q, K, V, O and LSE.
//
// Stages take it from here and from nowhere else, so the "extra memory" that a run prints is what
// was really allocated at the worst moment, counted over all threads, and no formula.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include "common/attention/view.hpp"

namespace fa {

/// Bytes of scratch memory in use now and at the worst moment since the last reset.
class ScratchMeter {
 public:
  static Index peak_bytes() { return peak_.load(); }

  /// Starts a new measurement. Call it while nothing is allocated.
  static void reset() { peak_.store(now_.load()); }

  static void add(Index bytes) {
    const Index now = now_.fetch_add(bytes) + bytes;
    Index peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }

 private:
  inline static std::atomic<Index> now_{0};
  inline static std::atomic<Index> peak_{0};
};

/// A row-major matrix [rows, cols] that owns its memory, 64-byte aligned and uninitialised.
/// Throws std::bad_alloc when there is not enough.
template <class T>
class Scratch : public Matrix<T> {
 public:
  Scratch(Index row_count, Index col_count) : Matrix<T>{nullptr, row_count, col_count, col_count} {
    this->data =
        static_cast<T*>(::operator new (static_cast<std::size_t>(bytes()), std::align_val_t{64}));
    ScratchMeter::add(bytes());
  }
  ~Scratch() {
    ScratchMeter::add(-bytes());
    ::operator delete (this->data, std::align_val_t{64});
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Index bytes() const { return this->rows * this->cols * static_cast<Index>(sizeof(T)); }
};

}  // namespace fa
