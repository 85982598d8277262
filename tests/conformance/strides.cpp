// Views into larger buffers: any row, head and batch stride, at any alignment.
#include <sys/mman.h>

#include <cstring>

#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace fa;

namespace {

/// How a tensor [B, H, N, d] lies in its buffer.
struct Layout {
  std::string name;
  bool heads_inside_rows;  // [B, N, H, d] instead of [B, H, N, d]
  Index row_gap;           // elements between rows
  Index more_heads;        // heads of the buffer that aren't the tensor's
  Index offset;            // elements before the first
};

const std::vector<Layout> kLayouts = {
    {"rows apart", false, 5, 0, 0},
    {"BNHD storage", true, 0, 0, 0},
    {"a slice of heads", false, 0, 3, 0},
    {"BNHD, a slice of heads, rows apart, odd start", true, 3, 2, 1},
    {"odd start", false, 0, 0, 1},
    {"BNHD, a slice of heads, rows apart, by 16 bytes", true, 8, 2, 8},
};

/// A tensor with a layout, in a buffer that is NaN wherever the tensor isn't.
class Spread {
 public:
  Spread(const AnyTensor& X, const Layout& layout)
      : buffer_(X.dtype,
                1,
                1,
                1,
                X.B * (X.H + layout.more_heads) * X.N * (X.d + layout.row_gap) + 2 * layout.offset +
                    64) {
    const Index heads = X.H + layout.more_heads, row = X.d + layout.row_gap;
    view_ = X;
    view_.data =
        static_cast<unsigned char*>(buffer_.view().data) + layout.offset * bytes_of(X.dtype);
    view_.row_stride = layout.heads_inside_rows ? heads * row : row;
    view_.head_stride = layout.heads_inside_rows ? row : X.N * row;
    view_.batch_stride = heads * X.N * row;
    for (Index e = 0; e < buffer_.view().d; ++e) fa::set(buffer_.view(), 0, 0, 0, e, NAN);
  }

  const AnyTensor& view() const { return view_; }
  Index numbers() const {
    Index count = 0;
    for (Index e = 0; e < buffer_.view().d; ++e) {
      const float value = buffer_.view().at(0, 0, 0, e);
      count += value == value;
    }
    return count;
  }

 private:
  Storage buffer_;
  AnyTensor view_;
};

/// Address space without memory behind it but for the pages that are touched.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr,
                     bytes,
                     PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1,
                     0)) {}
  ~Sparse() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  /// Null where there is no address space.
  void* data() const { return data_ == MAP_FAILED ? nullptr : data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

void copy(const AnyTensor& from, const AnyTensor& to) {
  for (Index b = 0; b < from.B; ++b)
    for (Index h = 0; h < from.H; ++h)
      for (Index i = 0; i < from.N; ++i)
        for (Index x = 0; x < from.d; ++x) set(to, b, h, i, x, from.at(b, h, i, x));
}

struct Strides {
  Index row, head, batch;
};

/// Runs it with one of Q, K, V and O (0 to 3) in `space`, which these strides span.
RunFacts run_spread(const Variant& variant,
                    const Problem& p,
                    Tensors tensors,
                    Output& output,
                    int which,
                    const Sparse& space,
                    const Strides& strides) {
  AnyTensor O = output.O();
  AnyTensor& X = which == 0 ? tensors.Q : which == 1 ? tensors.K : which == 2 ? tensors.V : O;
  const AnyTensor near = X;
  X.data = space.data();
  X.row_stride = strides.row;
  X.head_stride = strides.head;
  X.batch_stride = strides.batch;
  copy(near, X);
  const RunFacts facts =
      run_job(variant, {p, tensors.Q, tensors.K, tensors.V, O, output.LSE(), {}, variant.tile, 1});
  if (which == 3) copy(O, near);
  return facts;
}

}  // namespace

TEST_CASE("Tensors may lie anywhere: gaps never matter and are never written", "[ragged]") {
  std::size_t n = 0;
  for (const Layout& layout : kLayouts)
    for (const DType dtype : kAllTypes)
      for (const Index Nq : {1, 37}) {
        Problem some = with_mask(one_head(Nq, 71, 24, dtype), Nq > 1);
        some.B = 2;
        some.Hq = 4;
        some.Hkv = 2;
        for (const auto& [p, variants] : by_d(some, in_turn(n++, 3))) {
          const Inputs inputs = make_inputs(p, "normal", 4);
          const Expected expected = expect(p, inputs.view());
          const Spread Q(inputs.Q.view(), layout), K(inputs.K.view(), layout),
              V(inputs.V.view(), layout);
          copy(inputs.Q.view(), Q.view());
          copy(inputs.K.view(), K.view());
          copy(inputs.V.view(), V.view());
          for (const Variant& variant : variants) {
            INFO(variant.name << ", " << describe(p) << ", " << layout.name);
            Output output(p);
            const Spread O(output.O(), layout);
            const RunFacts facts = run_job(
                variant,
                {p, Q.view(), K.view(), V.view(), O.view(), output.LSE(), {}, variant.tile, 2});
            CHECK(facts.faults == "");
            CHECK(O.numbers() ==
                  O.view().elements());  // as many numbers as the tensor has, NaN all around
            copy(O.view(), output.O());
            CHECK(check_against_oracle(p, expected, output, variant.stage.leeway).failure() == "");
          }
        }
      }
}

TEST_CASE("Offsets beyond 2^31 elements are 64 bits wide") {
  // A multiple of 16 bytes, as the kernels that copy 16 bytes at a time want it.
  // Rows of one tensor at a time lie so far apart that the last one's offset is beyond 2^31, then
  // heads, then batch items: a stage that computes an offset in 32 bits reads or writes elsewhere.
  const Index far = (Index{1} << 30) + 8;
  const Sparse space(static_cast<std::size_t>(2 * far + 1000) * 2);
  REQUIRE(space.data());
  for (const Variant& variant : all_variants()) {
    const Index d = d_for(variant, 8);
    Problem p = one_head(3, 3, d, DType::float16);
    p.B = p.Hq = p.Hkv = 3;
    const Inputs inputs = make_inputs(p, "normal", 4);
    const Expected expected = expect(p, inputs.view());
    for (int which = 0; which < 4; ++which)
      for (const int axis : {0, 1, 2}) {
        if (variant.device == Device::gpu && axis != which % 3)
          continue;  // each copies four gigabytes to the GPU: every tensor once and every axis
        if (variant.device == Device::gpu && which == 3)
          continue;  // and O's way back would fill the address space with memory
        INFO(variant.name << ", "
                          << "QKVO"[which] << ", axis " << axis);
        Output output(p);
        const Strides strides = {
            axis == 0 ? far : d, axis == 1 ? far : 3 * d, axis == 2 ? far : 9 * d};
        CHECK(run_spread(variant, p, inputs.view(), output, which, space, strides).faults == "");
        CHECK(check_against_oracle(p, expected, output, variant.stage.leeway).failure() == "");
      }
  }
}

TEST_CASE("Rows nearly 2^24 elements apart are counted in 32 bits, and right") {
  const Index far = (Index{1} << 24) - 8, N = 200;
  const Sparse space(static_cast<std::size_t>(N * far) * 2);
  REQUIRE(space.data());
  const Problem p = one_head(N, N, 64, DType::float16);
  const Inputs inputs = make_inputs(p, "normal", 4);
  const Expected expected = expect(p, inputs.view());
  for (const Variant& variant : every_variant()) {
    if (variant.stage.number < 5) continue;
    if (variant.device == Device::gpu) continue;  // each would copy seven gigabytes there
    for (int which = 0; which < 4; ++which) {
      INFO(variant.name << ", "
                        << "QKVO"[which]);
      Output output(p);
      const RunFacts facts =
          run_spread(variant, p, inputs.view(), output, which, space, {far, N * far, N * far});
      CHECK(facts.faults == "");
      CHECK(facts.note == "");  // by its own kernel
      CHECK(check_against_oracle(p, expected, output, variant.stage.leeway).failure() == "");
    }
  }
}
