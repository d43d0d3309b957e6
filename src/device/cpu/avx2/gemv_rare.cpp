// Panels times one column for the formats of four bits by table (IQ4_NL, IQ4_XS, MXFP4) and of two and three bits
// (Q2_K, Q3_K), as gemv.cpp does it; and 16-bit floats times a few rows.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/levels.h"
#include "device/cpu/avx2/sums.h"
//
#include "device/cpu/avx2/gemv.inc"
//
#include "device/cpu/kernels/panel_walk.inc"

/// Signed levels: |level| times q with its sign.
LLMINFER_INLINE __m256i signed_sum(__m256i level, const std::int8_t* q) {
  return widen(_mm256_maddubs_epi16(_mm256_abs_epi8(level), _mm256_sign_epi8(broadcast(q), level)));
}

/// 32 weights of IQ4_NL's levels in four lines.
LLMINFER_INLINE __m256i iq4_sum(const std::byte* lines, int half, __m256i levels, const std::int8_t* q) {
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m256i x = load_line(lines + 64 * w, half);
    s = _mm256_add_epi32(s, signed_sum(_mm256_shuffle_epi8(levels, low_nibbles(x)), q + 4 * w));
    s = _mm256_add_epi32(s, signed_sum(_mm256_shuffle_epi8(levels, high_nibbles(x)), q + 16 + 4 * w));
  }
  return s;
}

struct OneIq4_Nl {
  static constexpr int lines = 4, small = 32, steps = 1;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int, F (&y)[1][parts]) {
    const __m256i levels = table_of(quant::iq4_levels, 0);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i sum = iq4_sum(at.lines, half, levels, c.q + 32 * b);
      y[0][half] = scaled(y[0][half], sum, load_halves(at.small + 16 * half), dx);
    }
  }
};

struct OneIq4_Xs {
  static constexpr int lines = 33, small = 64, steps = 8;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int step, F (&y)[1][parts]) {
    const __m256i levels = table_of(quant::iq4_levels, 0);
    const std::int64_t group = 8 * b + step;
    const __m256 dx = _mm256_set1_ps(c.d[group]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i sum = iq4_sum(at.lines + 64 * (1 + 4 * step), half, levels, c.q + 32 * group);
      y[0][half] = scaled(y[0][half], sum, scale_iq4_xs(at.lines, at.small, step, half), dx);
    }
  }
};

struct OneMxfp4 {
  static constexpr int lines = 4, small = 16, steps = 1;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int, F (&y)[1][parts]) {
    const __m256i table = table_of(quant::mxfp4_levels, 12);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    const __m256i shift = _mm256_madd_epi16(broadcast(c.half + 2 * b), _mm256_set1_epi16(-12));
    const std::int8_t* q = c.q + 32 * b;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i low = _mm256_setzero_si256(), high = low;
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        const __m256i x = load_line(at.lines + 64 * w, half);
        const __m256i p = _mm256_shuffle_epi8(table, low_nibbles(x)), r = _mm256_shuffle_epi8(table, high_nibbles(x));
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(p, broadcast(q + 4 * w)));
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(r, broadcast(q + 16 + 4 * w)));
      }
      const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(widen(low), widen(high)), shift);
      y[0][half] = scaled(y[0][half], sum, half_power(at.small + 8 * half), dx);
    }
  }
};

struct OneQ2_K {
  static constexpr int lines = 20, small = 64, steps = 8;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int step, F (&y)[1][parts]) {
    const __m256i four = _mm256_set1_epi32(15);
    const std::int64_t group = 8 * b + step;
    const __m256 dx = _mm256_set1_ps(c.d[group]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
      for (int w = 0; w < 8; ++w) {
        const __m256i level = byte_bits(load_line(at.lines + 64 * (4 + 8 * (step / 4) + w), half), 2 * (step % 4), 3);
        sum[w / 4] = _mm256_add_epi16(sum[w / 4], _mm256_maddubs_epi16(level, broadcast(c.q + 32 * group + 4 * w)));
      }
      const __m256i word = load_line(at.lines + 64 * (step / 2), half);
      const __m256i first = byte_of(word, step % 2 * 2), second = byte_of(word, step % 2 * 2 + 1);
      const __m256i dots = _mm256_add_epi32(_mm256_madd_epi16(sum[0], twice(_mm256_and_si256(first, four))),
                                            _mm256_madd_epi16(sum[1], twice(_mm256_and_si256(second, four))));
      const __m256i minima =
          _mm256_or_si256(_mm256_srli_epi32(first, 4), _mm256_slli_epi32(_mm256_srli_epi32(second, 4), 16));
      const __m256i least = _mm256_madd_epi16(minima, broadcast(c.half + 2 * group));
      y[0][half] = scaled(y[0][half], dots, load_halves(at.small + 16 * half), dx);
      const __m256 dm = _mm256_xor_ps(load_halves(at.small + 32 + 16 * half), _mm256_set1_ps(-0.0F));
      y[0][half] = scaled(y[0][half], least, dm, dx);
    }
  }
};

struct OneQ3_K {
  static constexpr int lines = 27, small = 32, steps = 8;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int step, F (&y)[1][parts]) {
    const std::int64_t group = 8 * b + step;
    const __m256 dx = _mm256_set1_ps(c.d[group]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
      for (int w = 0; w < 8; ++w) {
        const __m256i low = byte_bits(load_line(at.lines + 64 * (8 + 8 * (step / 4) + w), half), 2 * (step % 4), 3);
        const __m256i high = byte_bits(load_line(at.lines + 64 * w, half), step, 1);
        const __m256i level = _mm256_or_si256(low, _mm256_slli_epi16(high, 2));
        sum[w / 4] = _mm256_add_epi16(sum[w / 4], _mm256_maddubs_epi16(level, broadcast(c.q + 32 * group + 4 * w)));
      }
      const __m256i first = twice(scale_q3(at.lines + 64 * 24, half, 2 * step));
      const __m256i second = twice(scale_q3(at.lines + 64 * 24, half, 2 * step + 1));
      const __m256i dots = _mm256_add_epi32(_mm256_madd_epi16(sum[0], first), _mm256_madd_epi16(sum[1], second));
      // The zero is 4.
      const __m256i minus = _mm256_slli_epi32(
          _mm256_madd_epi16(_mm256_blend_epi16(first, second, 0xaa), broadcast(c.half + 2 * group)), 2);
      y[0][half] = scaled(y[0][half], _mm256_sub_epi32(dots, minus), load_halves(at.small + 16 * half), dx);
    }
  }
};

static inline __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
#include "device/cpu/kernels/half_rows.inc"
}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_rare_gemv(Kernels& kernels) noexcept {
  kernels.gemv[static_cast<int>(WeightType::iq4_nl)] = walk_all<OneIq4_Nl>;
  kernels.gemv[static_cast<int>(WeightType::iq4_xs)] = walk_all<OneIq4_Xs>;
  kernels.gemv[static_cast<int>(WeightType::mxfp4)] = walk_all<OneMxfp4>;
  kernels.gemv[static_cast<int>(WeightType::q2_k)] = walk_all<OneQ2_K>;
  kernels.gemv[static_cast<int>(WeightType::q3_k)] = walk_all<OneQ3_K>;
  kernels.half_rows[static_cast<int>(WeightType::f16)] = half_rows<false>;
  kernels.half_rows[static_cast<int>(WeightType::bf16)] = half_rows<true>;
}

}  // namespace llminfer::cpu::avx2
#endif
