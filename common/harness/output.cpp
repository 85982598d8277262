#include "common/harness/output.hpp"

#include <algorithm>
#include <cstring>

namespace fa {

namespace {
// Quiet NaNs that no arithmetic produces: x86 and Arm make NaNs with an empty payload.
constexpr std::uint32_t kPoison32 = 0x7fedbeef;
constexpr std::uint16_t kPoison16 = 0x7feb;  // a NaN in float16 and in bfloat16

template <class Bits>
Index count_equal(const unsigned char* data, Index elements, Bits poison) {
  Index count = 0;
  for (Index e = 0; e < elements; ++e) {
    Bits bits;
    std::memcpy(&bits, data + e * static_cast<Index>(sizeof bits), sizeof bits);
    count += bits == poison;
  }
  return count;
}

Index poisoned(const void* data, DType dtype, Index elements) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  return dtype == DType::float32 ? count_equal(bytes, elements, kPoison32)
                                 : count_equal(bytes, elements, kPoison16);
}

void fill(void* data, DType dtype, Index elements) {
  auto* bytes = static_cast<unsigned char*>(data);
  for (Index e = 0; e < elements; ++e) {
    if (dtype == DType::float32)
      std::memcpy(bytes + 4 * e, &kPoison32, 4);
    else
      std::memcpy(bytes + 2 * e, &kPoison16, 2);
  }
}
}  // namespace

Output::Output(const Problem& p)
    : dtype_(p.dtype),
      guard_(std::max<Index>(p.d * 4, 64)),
      o_(static_cast<std::size_t>((p.B * p.Hq * p.Nq * p.d + 2 * guard_) * bytes_of(p.dtype))),
      lse_(static_cast<std::size_t>(p.B * p.Hq * p.Nq + 2 * guard_)),
      O_{o_.data() + guard_ * bytes_of(p.dtype),
         p.dtype,
         p.B,
         p.Hq,
         p.Nq,
         p.d,
         p.Hq * p.Nq * p.d,
         p.Nq * p.d,
         p.d} {
  poison();
}

void Output::poison() {
  fill(o_.data(), dtype_, O_.elements() + 2 * guard_);
  fill(lse_.data(), DType::float32, static_cast<Index>(lse_.size()));
}

bool Output::guards_intact() const {
  const Index size = bytes_of(dtype_), elements = O_.elements(), rows = O_.B * O_.H * O_.N;
  const Index intact = poisoned(o_.data(), dtype_, guard_) +
                       poisoned(o_.data() + (guard_ + elements) * size, dtype_, guard_) +
                       poisoned(lse_.data(), DType::float32, guard_) +
                       poisoned(lse_.data() + guard_ + rows, DType::float32, guard_);
  return intact == 4 * guard_;
}

Index Output::unwritten() const {
  return poisoned(O_.data, dtype_, O_.elements()) +
         poisoned(LSE(), DType::float32, O_.B * O_.H * O_.N);
}

}  // namespace fa
