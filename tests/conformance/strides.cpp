// Views into larger buffers: any row, head and batch stride, at any alignment.
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

void copy(const AnyTensor& from, const AnyTensor& to) {
  for (Index b = 0; b < from.B; ++b)
    for (Index h = 0; h < from.H; ++h)
      for (Index i = 0; i < from.N; ++i)
        for (Index x = 0; x < from.d; ++x) set(to, b, h, i, x, from.at(b, h, i, x));
}

}  // namespace

TEST_CASE("Tensors may lie anywhere: gaps never matter and are never written") {
  for (const Layout& layout : kLayouts)
    for (const DType dtype : kAllTypes)
      for (const Index Nq : {1, 37}) {
        Problem p = with_mask(one_head(Nq, 71, 20, dtype), Nq > 1);
        p.B = 2;
        p.Hq = 4;
        p.Hkv = 2;
        const Inputs inputs = make_inputs(p, "normal", 4);
        const Expected expected = expect(p, inputs.view());
        const Spread Q(inputs.Q.view(), layout), K(inputs.K.view(), layout),
            V(inputs.V.view(), layout);
        copy(inputs.Q.view(), Q.view());
        copy(inputs.K.view(), K.view());
        copy(inputs.V.view(), V.view());
        for (const Variant& variant : all_variants()) {
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
          CHECK(check_against_oracle(p, expected, output).failure() == "");
        }
      }
}

TEST_CASE("Offsets beyond 2^31 elements are 64 bits wide") {
  // Heads 2^31 elements apart, backwards and forwards from the middle of one small buffer would be
  // undefined; a stride that large is only ever multiplied by head 0 and batch 0 here.
  Problem p = one_head(3, 5, 8);
  const Inputs inputs = make_inputs(p, "normal", 4);
  Tensors far = inputs.view();
  for (AnyTensor* X : {&far.Q, &far.K, &far.V}) X->head_stride = X->batch_stride = Index{1} << 40;
  const Expected expected = expect(p, inputs.view());
  for (const Variant& variant : all_variants()) CHECK(check(variant, p, far, expected) == "");
  const Matrix<float> M = inputs.Q.view().as<float>().head(0, 0);
  const Matrix<float> wide{M.data, M.rows, M.cols, Index{3} << 30};
  const auto bytes =
      reinterpret_cast<std::uintptr_t>(wide[2]) - reinterpret_cast<std::uintptr_t>(wide[0]);
  CHECK(bytes == (std::uintptr_t{6} << 30) * sizeof(float));
}
