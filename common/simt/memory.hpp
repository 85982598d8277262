// Memory as kernels see it in the emulator. With nvcc these names are plain pointers:
//
//     Global<T>            T*                 Shared<T>             T*
//     GlobalTensor<T>      fa::Tensor<T>      SharedTile<T, cols>   T (*)[cols]
//
// Here they are views with the same syntax that know what they may touch. An element is read when
// it is converted to its type, written when it is assigned to; `At` is how an index learns the
// line.
#pragma once

#include <type_traits>

#include "common/cuda/target.hpp"
#include "common/simt/machine.hpp"

namespace fa::simt {

/// An index, and where in the source it stands.
struct At {
  Index value;
  const char* file;
  int line;
  At(Index v, const char* f = __builtin_FILE(), int l = __builtin_LINE())
      : value(v), file(f), line(l) {}
  SiteId site() const { return site_of(file, line); }
};

namespace impl {
/// Rounded up.
constexpr int log2_of(std::size_t bytes) { return bytes <= 1 ? 0 : 1 + log2_of((bytes + 1) / 2); }

/// What reads give that may not be done: NaN in every type.
template <class V>
V poison() {
  V value;
  std::memset(static_cast<void*>(&value), 0xff, sizeof value);
  return value;
}
}  // namespace impl

/// An element of a view, in an expression. View has read<V>(at, where) and write(at, where, v).
/// It is read where it is used: `auto v = s[t];` would keep the element and read it later, when it
/// may hold something else, so an Element with a name doesn't convert. (Say `float v = s[t];`.)
template <class View>
class Element {
 public:
  using Value = typename View::Value;
  using Number = std::conditional_t<std::is_arithmetic_v<Value>, Value, float>;

  Element(View view, At where) : view_(view), where_(where) {}
  Element(const Element&) = default;

  operator Value() const&& { return view_.template read<Value>(where_); }
  /// 16-bit elements convert to float in products, as the bare type does.
  template <class V = Value,
            std::enable_if_t<std::is_class_v<V> && std::is_convertible_v<V, float>, int> = 0>
  operator float() const&& {
    return static_cast<float>(view_.template read<Value>(where_));
  }

  const Element& operator=(Value value) const {
    view_.template write<Value>(where_, value);
    return *this;
  }
  const Element& operator=(const Element& other) const { return *this = other.read(); }
  const Element& operator+=(Number x) const { return *this = Value(read() + x); }
  const Element& operator-=(Number x) const { return *this = Value(read() - x); }
  const Element& operator*=(Number x) const { return *this = Value(read() * x); }
  const Element& operator/=(Number x) const { return *this = Value(read() / x); }

 private:
  Value read() const { return view_.template read<Value>(where_); }

  View view_;
  At where_;
};

/// A pointer into one buffer of global memory.
template <class T>
class Global {
 public:
  using Value = std::remove_const_t<T>;

  Global() = default;
  Global(const Buffer* buffer, Index at) : buffer_(buffer), at_(at) {}
  operator Global<const T>() const { return {buffer_, at_}; }

  Global operator+(Index n) const { return {buffer_, at_ + n}; }
  Global operator-(Index n) const { return {buffer_, at_ - n}; }
  Global& operator+=(Index n) { return at_ += n, *this; }

  auto operator[](At i) const {
    if constexpr (std::is_const_v<T>)
      return read<Value>(i);
    else
      return Element<Global>(*this, i);
  }

  /// A V, as wide as several elements perhaps, that begins at element `i`.
  template <class V>
  V read(const At& i) const {
    if (!touch<V>(i, Access::load)) return impl::poison<V>();
    V value;
    std::memcpy(static_cast<void*>(&value), address(i.value), sizeof value);
    return value;
  }
  template <class V>
  void write(const At& i, const V& value) const {
    if (touch<V>(i, Access::store)) std::memcpy(address(i.value), &value, sizeof value);
  }

  unsigned char* address(Index i) const {
    return buffer_->base + (at_ + i) * static_cast<Index>(sizeof(T));
  }

  /// As counted: see GlobalEntry.
  std::uint64_t virtual_address(Index i) const {
    return buffer_->virtual_base + static_cast<std::uint64_t>(at_ + i) * sizeof(T);
  }

  template <class V>
  bool touch(const At& i, Access what) const {
    return touch(i, what, sizeof(V) / sizeof(T), sizeof(V));
  }

  /// Checks an access to `count` elements that must begin at a multiple of `alignment` bytes, and
  /// notes it.
  bool touch(const At& i, Access what, Index count, int alignment) const {
    const Index at = at_ + i.value;
    if (__builtin_expect(!buffer_->inside(at, count), 0)) {
      violate_global(*buffer_, at, what, i.site());
      return false;
    }
    const std::uint64_t address = virtual_address(i.value);
    if (alignment > static_cast<int>(sizeof(T)) &&
        address % static_cast<std::uint64_t>(alignment) != 0)
      violate_global(*buffer_, at, what, i.site(), alignment);
    log_global(i.site(), what, impl::log2_of(static_cast<std::size_t>(count) * sizeof(T)), address);
    return true;
  }

 private:
  const Buffer* buffer_ = nullptr;
  Index at_ = 0;
};

/// fa::Matrix and fa::Tensor over Global<T>.
template <class T>
struct GlobalMatrix {
  Global<T> data;
  Index rows = 0;
  Index cols = 0;
  Index row_stride = 0;

  Global<T> operator[](Index i) const { return data + i * row_stride; }
};

template <class T>
struct GlobalTensor {
  Global<T> data;
  Index B = 0;
  Index H = 0;
  Index N = 0;
  Index d = 0;
  Index batch_stride = 0;
  Index head_stride = 0;
  Index row_stride = 0;

  GlobalMatrix<T> head(Index b, Index h) const {
    return {data + b * batch_stride + h * head_stride, N, d, row_stride};
  }
};

/// Makes a tensor known to the emulator by a name, for the kernel that it is passed to.
template <class T>
GlobalTensor<T> global(const char* name, const Tensor<T>& t) {
  const Tensor<const unsigned char> shape{reinterpret_cast<const unsigned char*>(t.data),
                                          t.B,
                                          t.H,
                                          t.N,
                                          t.d,
                                          t.batch_stride,
                                          t.head_stride,
                                          t.row_stride};
  return {Global<T>(add_buffer(name, shape, sizeof(T)), 0),
          t.B,
          t.H,
          t.N,
          t.d,
          t.batch_stride,
          t.head_stride,
          t.row_stride};
}
/// The same for an array of `elements`.
template <class T>
Global<T> global(const char* name, T* data, Index elements) {
  return {add_buffer(name, data, elements, sizeof(T)), 0};
}

/// A pointer into one part of the block's shared memory, or into one row of it.
template <class T>
class Shared {
 public:
  using Value = std::remove_const_t<T>;

  Shared() = default;
  Shared(const SharedPart* part, Index at) : Shared(part, at, 0, part->elements) {}
  Shared(const SharedPart* part, Index at, Index first, Index last)
      : part_(part), at_(at), first_(first), last_(last) {}
  operator Shared<const T>() const { return {part_, at_, first_, last_}; }

  Shared operator+(Index n) const { return {part_, at_ + n, first_, last_}; }
  Shared operator-(Index n) const { return {part_, at_ - n, first_, last_}; }
  Shared& operator+=(Index n) { return at_ += n, *this; }

  auto operator[](At i) const {
    if constexpr (std::is_const_v<T>)
      return read<Value>(i);
    else
      return Element<Shared>(*this, i);
  }

  template <class V>
  V read(const At& i) const {
    if (!touch<V>(i, Access::load)) return impl::poison<V>();
    V value;
    std::memcpy(static_cast<void*>(&value), hot.shared + byte(i.value), sizeof value);
    return value;
  }
  template <class V>
  void write(const At& i, const V& value) const {
    if (touch<V>(i, Access::store)) std::memcpy(hot.shared + byte(i.value), &value, sizeof value);
  }

  std::uint32_t byte(Index i) const {
    return part_->begin + static_cast<std::uint32_t>(at_ + i) * std::uint32_t{sizeof(T)};
  }

  template <class V>
  bool touch(const At& i, Access what) const {
    if (!inside<V>(i, what)) return false;
    log_shared(i.site(), what, impl::log2_of(sizeof(V)), byte(i.value));
    return true;
  }

  /// Bounds and alignment alone.
  template <class V>
  bool inside(const At& i, Access what) const {
    constexpr Index count = sizeof(V) / sizeof(T);
    const Index at = at_ + i.value;
    if (__builtin_expect(at < first_ || count > last_ - at, 0)) {
      if (last_ - first_ < part_->elements && at >= first_)
        violate_row(*part_, first_ / part_->columns, at - first_, i.site(), count);
      else
        violate_shared(*part_, at, what, i.site());
      return false;
    }
    if constexpr (count > 1)
      if (byte(i.value) % sizeof(V) != 0) violate_shared(*part_, at, what, i.site(), sizeof(V));
    return true;
  }

 private:
  const SharedPart* part_ = nullptr;
  Index at_ = 0;
  Index first_ = 0, last_ = 0;  // the elements that it may touch: [first, last)
};

/// A row of a tile: as Shared<T>, and knows where the row ends.
template <class T, int cols>
class SharedRow {
 public:
  using Value = std::remove_const_t<T>;

  SharedRow(const SharedPart* part, Index at) : part_(part), at_(at) {}
  operator Shared<T>() const { return {part_, at_, at_, at_ + cols}; }
  operator Shared<const T>() const { return {part_, at_, at_, at_ + cols}; }
  Shared<T> operator+(Index n) const { return {part_, at_ + n, at_, at_ + cols}; }

  auto operator[](At x) const {
    if constexpr (std::is_const_v<T>)
      return read<Value>(x);
    else
      return Element<SharedRow>(*this, x);
  }
  template <class V>
  V read(const At& x) const {
    if (!in_row(x)) return impl::poison<V>();
    return Shared<T>(part_, at_).template read<V>(x);
  }
  template <class V>
  void write(const At& x, const V& value) const {
    if (in_row(x)) Shared<T>(part_, at_).template write<V>(x, value);
  }

 private:
  bool in_row(const At& x) const {
    if (__builtin_expect(x.value >= 0 && x.value < cols, 1)) return true;
    violate_row(*part_, at_ / cols, x.value, x.site());
    return false;
  }

  const SharedPart* part_;
  Index at_;
};

/// A tile [rows, cols] in shared memory.
template <class T, int cols>
class SharedTile {
 public:
  SharedTile() = default;
  SharedTile(const SharedPart* part, Index row) : part_(part), row_(row) {}

  SharedRow<T, cols> operator[](Index i) const { return {part_, (row_ + i) * cols}; }
  SharedTile operator+(Index rows) const { return {part_, row_ + rows}; }

  std::uint32_t byte() const {
    return part_->begin + static_cast<std::uint32_t>(row_ * cols) * std::uint32_t{sizeof(T)};
  }
  /// Are `rows` rows from here on in its part of shared memory? Reports it if not, and a beginning
  /// that isn't at a multiple of `alignment` bytes.
  bool fits(Index rows, int alignment, Access what, const At& here) const {
    const Index first = row_ * cols, last = first + rows * cols - 1;
    if (first < 0 || last >= part_->elements) {
      violate_shared(*part_, first < 0 ? first : last, what, here.site());
      return false;
    }
    if (byte() % static_cast<std::uint32_t>(alignment) != 0)
      violate_shared(*part_, first, what, here.site(), alignment);
    return true;
  }

 private:
  const SharedPart* part_ = nullptr;
  Index row_ = 0;
};

/// A lane's place in a swizzled tile of pages: what the words mean stands in common/cuda/gpu.cuh.
template <class T, int rows>
class Place {
 public:
  Place(SharedTile<T, 64> tile, int i, int x) : tile_(tile), i_(i), x_(x) {}

  Shared<T> at(int down, int right) const {
    const int i = i_ + down, x = x_ ^ right;
    return tile_[x / 64 * rows + i] + (x % 64 ^ (i & 7) * 8);
  }
  Place behind(int tile_rows) const { return {tile_ + tile_rows, i_, x_}; }

 private:
  SharedTile<T, 64> tile_;
  int i_, x_;
};

/// The block's dynamic shared memory, handed out from its beginning. Every thread asks for the same
/// parts in the same order.
class SharedMemory {
 public:
  template <class T, int cols>
  SharedTile<T, cols> tile(const char* name,
                           Index rows,
                           const char* file = __builtin_FILE(),
                           int line = __builtin_LINE()) {
    static_assert(sizeof(T) >= 2, "races are looked for in cells of 2 bytes");
    return {
        carve(name, rows * cols, sizeof(T), cols, tile_bytes<T, cols>(rows), site_of(file, line)),
        0};
  }
  template <class T>
  Shared<T> array(const char* name,
                  Index elements,
                  const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    static_assert(sizeof(T) >= 2, "races are looked for in cells of 2 bytes");
    return {carve(name, elements, sizeof(T), 0, tile_bytes<T, 1>(elements), site_of(file, line)),
            0};
  }

 private:
  const SharedPart* carve(const char* name,
                          Index elements,
                          Index element_bytes,
                          Index columns,
                          std::size_t bytes,
                          SiteId site) {
    const SharedPart part{
        name, static_cast<std::uint32_t>(used_), elements, element_bytes, columns};
    used_ += bytes;
    return hot.worker->carve(parts_++, part, site);
  }

  std::size_t used_ = 0;
  std::size_t parts_ = 0;
};

inline SharedMemory shared_memory() { return {}; }

/// A vector of several elements, in one access: load_vector<float4>(sK[j] + x).
template <class V, class T>
V load_vector(Global<T> from, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return from.template read<V>(At(0, file, line));
}
template <class V, class T>
V load_vector(Shared<T> from, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return from.template read<V>(At(0, file, line));
}
template <class V, class T>
void store_vector(Global<T> to,
                  const V& value,
                  const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  to.template write<V>(At(0, file, line), value);
}
template <class V, class T>
void store_vector(Shared<T> to,
                  const V& value,
                  const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  to.template write<V>(At(0, file, line), value);
}

}  // namespace fa::simt
