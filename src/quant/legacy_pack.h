// Rounding float32 weights into the formats of legacy.h, with the bytes of the `gguf` Python package's quantizers.
// The steps are in float32 and in its order: scale d, reciprocal 1/d, level = round(w / d), then d stored as a half.
// The bytes are equal wherever that package gives the same on every CPU: finite weights, a finite range and 1/d, and
// for Q4_1 and Q5_1 no minimum of zero with zeros of both signs. Other blocks are valid all the same: a level without a
// value is 0, a NaN makes the block NaN.
#pragma once

#include <cmath>

#include "quant/legacy.h"

namespace llminfer::quant {

/// The weight with the largest magnitude, the first of equals; a NaN counts as the largest.
inline float signed_extreme(const float* in) noexcept {
  float extreme = in[0];
  for (unsigned i = 1; i < 32 && !std::isnan(extreme); ++i) {
    if (std::isnan(in[i]) || std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  return extreme;
}

struct Range {
  float low, high;  // both NaN if any weight is
};

inline Range range_of(const float* in) noexcept {
  Range range{in[0], in[0]};
  for (unsigned i = 1; i < 32 && !std::isnan(range.low); ++i) {
    if (std::isnan(in[i])) range = {in[i], in[i]};
    if (in[i] < range.low) range.low = in[i];
    if (in[i] > range.high) range.high = in[i];
  }
  return range;
}

inline float reciprocal_or_zero(float d) noexcept { return d == 0 ? 0.0f : 1.0f / d; }

/// Whole part of x as a level 0..top; 0 where x is no finite number.
inline int to_level(float x, int top) noexcept {
  if (!std::isfinite(x) || x < 0) return 0;
  return x >= static_cast<float>(top) ? top : static_cast<int>(x);
}

/// Stores 32 levels: low four bits to qs (see legacy.h), bit 4 to qh if there is one.
inline void store_levels(const int (&levels)[32], std::uint8_t (&qs)[16], std::uint8_t* qh = nullptr) noexcept {
  for (unsigned i = 0; i < 16; ++i) {
    qs[i] = static_cast<std::uint8_t>((levels[i] & 0x0f) | (levels[i + 16] & 0x0f) << 4);
  }
  if (qh == nullptr) return;
  for (unsigned byte = 0; byte < 4; ++byte) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 8; ++i) bits |= (static_cast<unsigned>(levels[byte * 8 + i]) >> 4 & 1u) << i;
    qh[byte] = static_cast<std::uint8_t>(bits);
  }
}

/// Q4_0 and Q5_0: the extreme weight gets level 0 (q = -half), so that it is stored exactly up to the rounding of d.
/// Returns d.
inline float symmetric_levels(const float* in, int half, int (&levels)[32]) noexcept {
  const float d = signed_extreme(in) / static_cast<float>(-half);
  const float inverse = reciprocal_or_zero(d);
  for (unsigned i = 0; i < 32; ++i) {
    levels[i] = to_level(in[i] * inverse + (static_cast<float>(half) + 0.5f), 2 * half - 1);
  }
  return d;
}

/// Q4_1 and Q5_1: levels 0..top from the least to the greatest weight. Returns d; `low` becomes the minimum.
inline float ranged_levels(const float* in, int top, int (&levels)[32], float& low) noexcept {
  const Range range = range_of(in);
  const float d = (range.high - range.low) / static_cast<float>(top);
  const float inverse = reciprocal_or_zero(d);
  for (unsigned i = 0; i < 32; ++i) levels[i] = to_level((in[i] - range.low) * inverse + 0.5f, top);
  low = range.low;
  return d;
}

inline void pack(const float* in, BlockQ4_0& block) noexcept {
  int levels[32];
  block.d = core::f32_to_f16(symmetric_levels(in, 8, levels));
  store_levels(levels, block.qs);
}

inline void pack(const float* in, BlockQ5_0& block) noexcept {
  int levels[32];
  block.d = core::f32_to_f16(symmetric_levels(in, 16, levels));
  store_levels(levels, block.qs, block.qh);
}

inline void pack(const float* in, BlockQ4_1& block) noexcept {
  int levels[32];
  float low = 0;
  block.d = core::f32_to_f16(ranged_levels(in, 15, levels, low));
  block.m = core::f32_to_f16(low);
  store_levels(levels, block.qs);
}

inline void pack(const float* in, BlockQ5_1& block) noexcept {
  int levels[32];
  float low = 0;
  block.d = core::f32_to_f16(ranged_levels(in, 31, levels, low));
  block.m = core::f32_to_f16(low);
  store_levels(levels, block.qs, block.qh);
}

/// Halves round away from zero.
inline void pack(const float* in, BlockQ8_0& block) noexcept {
  const float d = std::fabs(signed_extreme(in)) / 127.0f;
  const float inverse = reciprocal_or_zero(d);
  for (unsigned i = 0; i < 32; ++i) {
    const float x = in[i] * inverse;
    const float magnitude = std::fabs(x), whole = std::floor(magnitude);
    const int level = to_level(whole + std::floor(2 * (magnitude - whole)), 127);
    block.qs[i] = static_cast<std::int8_t>(x < 0 ? -level : level);
  }
  block.d = core::f32_to_f16(d);
}

}  // namespace llminfer::quant
