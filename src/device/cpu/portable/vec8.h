// Eight floats at a time without any instruction set: the meaning of the operations in the vec8.h of each, lane by
// lane. The float kernels (kernels/*.inc) are written over these headers, so that every lane of every instruction set
// computes the same.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/half.h"

namespace llminfer::cpu::portable {

struct F8 {
  float v[8];
};

static inline F8 load(const float* p) {
  F8 r;
  std::memcpy(r.v, p, sizeof(r.v));
  return r;
}
static inline void store(float* p, const F8& a) { std::memcpy(p, a.v, sizeof(a.v)); }
static inline F8 set1(float x) { return {{x, x, x, x, x, x, x, x}}; }
static inline F8 zero() { return set1(0.0F); }

#define LLMINFER_LANES(expression)                   \
  F8 r;                                              \
  for (int i = 0; i < 8; ++i) r.v[i] = (expression); \
  return r
static inline F8 add(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] + b.v[i]); }
static inline F8 sub(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] - b.v[i]); }
static inline F8 mul(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] * b.v[i]); }
static inline F8 div(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] / b.v[i]); }
/// a * b + c, rounded once.
static inline F8 fma(const F8& a, const F8& b, const F8& c) { LLMINFER_LANES(std::fma(a.v[i], b.v[i], c.v[i])); }
/// The second operand where either is NaN, as the x86 instructions do.
static inline F8 max(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
static inline F8 min(const F8& a, const F8& b) { LLMINFER_LANES(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
static inline F8 abs(const F8& a) {
  LLMINFER_LANES(std::bit_cast<float>(std::bit_cast<std::uint32_t>(a.v[i]) & 0x7fffffffU));
}
static inline F8 negate(const F8& a) {
  LLMINFER_LANES(std::bit_cast<float>(std::bit_cast<std::uint32_t>(a.v[i]) ^ 0x80000000U));
}
/// 2^n from x = 1.5 * 2^23 + n, n -127 .. 127 (-127: 0).
static inline F8 power_of_magic(const F8& x) {
  LLMINFER_LANES(std::bit_cast<float>((std::bit_cast<std::uint32_t>(x.v[i]) - 0x4b400000U + 127U) << 23));
}
/// Each lane holds two bf16, the even one in its low half: one of them as a float; the even one alone, where it is.
static inline F8 even_of_pairs(const F8& x) {
  LLMINFER_LANES(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) << 16));
}
static inline F8 odd_of_pairs(const F8& x) {
  LLMINFER_LANES(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) & 0xffff0000U));
}
static inline F8 first_of_pairs(const F8& x) {
  LLMINFER_LANES(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) & 0xffffU));
}
/// Lane i of `a` where first <= i + base <= last, else `other`.
static inline F8 keep_range(const F8& a, int base, int first, int last, float other) {
  LLMINFER_LANES(i + base >= first && i + base <= last ? a.v[i] : other);
}
#undef LLMINFER_LANES

/// ((0+4) + (2+6)) + ((1+5) + (3+7))
static inline float sum(const F8& a) {
  const float s0 = a.v[0] + a.v[4], s1 = a.v[1] + a.v[5], s2 = a.v[2] + a.v[6], s3 = a.v[3] + a.v[7];
  return (s0 + s2) + (s1 + s3);
}
/// The sums of four vectors.
static inline void sum_4(const F8& a, const F8& b, const F8& c, const F8& d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
/// Same tree as sum, with max.
static inline float max_lane(const F8& a) {
  float s[4];
  for (int i = 0; i < 4; ++i) s[i] = a.v[i] > a.v[i + 4] ? a.v[i] : a.v[i + 4];
  const float t0 = s[0] > s[2] ? s[0] : s[2], t1 = s[1] > s[3] ? s[1] : s[3];
  return t0 > t1 ? t0 : t1;
}
static inline F8 load_f16(const std::byte* p) {
  F8 r;
  for (int i = 0; i < 8; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, p + 2 * i, 2);
    r.v[i] = core::f16_to_f32(bits);
  }
  return r;
}
/// Eight signed bytes.
static inline F8 load_i8(const std::byte* p) {
  F8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = static_cast<float>(static_cast<std::int8_t>(p[i]));
  return r;
}
/// Low (high) four bits of eight bytes, minus 8.
static inline F8 load_low_nibble(const std::byte* p) {
  F8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = static_cast<float>((std::to_integer<int>(p[i]) & 15) - 8);
  return r;
}
static inline F8 load_high_nibble(const std::byte* p) {
  F8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = static_cast<float>((std::to_integer<int>(p[i]) >> 4) - 8);
  return r;
}
/// Lanes are 1.5 * 2^23 + n with n -128 .. 127: the 32 bytes n to `out`, the sums of the first and last 16 to `half`.
static inline void store_magic(std::int8_t* out, std::int16_t* half, const F8& a, const F8& b, const F8& c,
                               const F8& d) {
  const F8* all[4] = {&a, &b, &c, &d};
  int sums[2] = {0, 0};
  for (int i = 0; i < 32; ++i) {
    const int n = static_cast<int>(std::bit_cast<std::uint32_t>(all[i / 8]->v[i % 8]) & 0xffU);
    out[i] = static_cast<std::int8_t>(n < 128 ? n : n - 256);
    sums[i / 16] += out[i];
  }
  half[0] = static_cast<std::int16_t>(sums[0]);
  half[1] = static_cast<std::int16_t>(sums[1]);
}
static inline void store_f16(std::byte* p, const F8& a) {
  for (int i = 0; i < 8; ++i) {
    const std::uint16_t bits = core::f32_to_f16(a.v[i]);
    std::memcpy(p + 2 * i, &bits, 2);
  }
}
static inline std::uint16_t to_half(float x) { return core::f32_to_f16(x); }
static inline std::uint16_t to_bf16(float x) { return core::f32_to_bf16(x); }
static inline float from_half(std::uint16_t bits) { return core::f16_to_f32(bits); }
static inline float square_root(float x) { return std::sqrt(x); }
static inline float fma1(float a, float b, float c) { return std::fma(a, b, c); }

}  // namespace llminfer::cpu::portable
