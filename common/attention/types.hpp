// The three element types of Q, K, V and O, and the integer that counts elements.
//
// The 16-bit types only store: they convert to float by themselves and back on request, and have
// no arithmetic of their own. So `s += q_i[x] * k_j[x]` is a float product and a float sum whatever
// the type of Q and K is; that is the contract's "scores, softmax state, accumulators: float32".
//
//            sign  exponent  fraction   unit roundoff u   largest    smallest normal
//   float32    1      8         23          2^-24         3.4e38         2^-126
//   float16    1      5         10          2^-11         65504          2^-14
//   bfloat16   1      8          7          2^-8          3.4e38         2^-126
#pragma once

#ifdef __FAST_MATH__
#error \
    "-ffast-math removes NaN, infinity and rounding: attention built with it is wrong. Drop the flag."
#endif

#include <cstdint>
#include <cstring>

#include "common/attention/host_device.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace fa {

/// Counts elements, and measures strides in elements. 64 bits: B·H·N·d passes 2^31 in practice.
using Index = std::int64_t;

enum class DType { float32, float16, bfloat16 };

namespace detail {
FA_HOST_DEVICE inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
FA_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
}  // namespace detail

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  FA_HOST_DEVICE explicit float16(float x);
  FA_HOST_DEVICE operator float() const;
};

/// The upper half of a float32. Conversion from float rounds to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  FA_HOST_DEVICE explicit bfloat16(float x) {
#ifdef __CUDA_ARCH__
    bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    const std::uint32_t b = detail::bits_of(x);
    if (x != x)
      bits = static_cast<std::uint16_t>((b >> 16) |
                                        0x40);  // keep NaN a NaN: rounding could carry it to Inf
    else
      bits = static_cast<std::uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16);
#endif
  }
  FA_HOST_DEVICE operator float() const {
    return detail::float_of(static_cast<std::uint32_t>(bits) << 16);
  }
};

#ifdef __CUDA_ARCH__
FA_HOST_DEVICE inline float16::float16(float x) : bits(__half_as_ushort(__float2half_rn(x))) {}
FA_HOST_DEVICE inline float16::operator float() const {
  return __half2float(__ushort_as_half(bits));
}
#elif defined(__F16C__)
FA_HOST_DEVICE inline float16::float16(float x) : bits(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)) {}
FA_HOST_DEVICE inline float16::operator float() const { return _cvtsh_ss(bits); }
#else
FA_HOST_DEVICE inline float16::float16(float x) {
  const std::uint32_t b = detail::bits_of(x);
  const std::uint32_t sign = (b >> 16) & 0x8000;
  const std::uint32_t magnitude = b & 0x7fffffff;
  std::uint32_t h;
  if (magnitude > 0x7f800000) {  // NaN: the upper fraction bits stay, and it stays a NaN
    h = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // 65520 and more round to infinity
    h = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal: exponent 127 becomes 15, 13 fraction bits go
    h = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else {  // subnormal: adding 0.5 aligns the fraction to 2^-24 and rounds it in hardware
    h = detail::bits_of(detail::float_of(magnitude) + 0.5f) - 0x3f000000;
  }
  bits = static_cast<std::uint16_t>(sign | h);
}
FA_HOST_DEVICE inline float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  if (rest >=
      0x0f800000)  // infinity or NaN: all exponent bits set in float32 too; NaN comes out quiet
    return detail::float_of(sign | rest | 0x7f800000 | (rest > 0x0f800000 ? 0x400000 : 0));
  // 2^112 moves the exponent's bias from 15 to 127, and normalises subnormals on the way.
  return detail::float_of(sign | detail::bits_of(detail::float_of(rest) * 0x1p112f));
}
#endif

/// Calls f with a zero of the C++ type that `dtype` names, and returns what f returns:
/// `dispatch(dtype, [&](auto zero) { using T = decltype(zero); … })`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f(float16{});
    case DType::bfloat16:
      return f(bfloat16{});
    case DType::float32:
      break;
  }
  return f(0.0f);
}

template <class T>
inline constexpr DType dtype_of = DType::float32;
template <>
inline constexpr DType dtype_of<float16> = DType::float16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;

/// "float32", "float16", "bfloat16".
inline const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      break;
  }
  return "float32";
}

inline Index bytes_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

/// Unit roundoff u: the largest relative error of rounding to the type (half a unit in the last place).
inline double roundoff_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 0x1p-11;
    case DType::bfloat16:
      return 0x1p-8;
    case DType::float32:
      break;
  }
  return 0x1p-24;
}

}  // namespace fa
