// One panel times one column for the formats of four bits by table (IQ4_NL, IQ4_XS, MXFP4) and of two and three bits
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

/// Asks for `lines` lines of the next panel.
LLMINFER_INLINE void prefetch_lines(const std::byte* p, int lines) {
#pragma GCC unroll 16
  for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(p + 64 * i), _MM_HINT_T0);
}

/// y + sum * (d * dx)
LLMINFER_INLINE __m256 scaled(__m256 y, __m256i sum, __m256 d, __m256 dx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, dx), y);
}

LLMINFER_INLINE void put_rows(const QuantColumn& c, const __m256* y) {
  _mm256_storeu_ps(c.out, y[0]);
  _mm256_storeu_ps(c.out + 8, y[1]);
}

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

static void gemv_iq4_nl(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  const __m256i levels = table_of(quant::iq4_levels, 0);
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    prefetch_lines(panel + s.panel_bytes + 288 * b, 5);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    for (int half = 0; half < 2; ++half) {
      const __m256i sum = iq4_sum(panel + 256 * b, half, levels, c.q + 32 * b);
      y[half] = scaled(y[half], sum, load_halves(small + 32 * b + 16 * half), dx);
    }
  }
  put_rows(c, y);
}

static void gemv_iq4_xs(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const __m256i levels = table_of(quant::iq4_levels, 0);
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const std::byte* lines = panel + 64 * 33 * b;
    const std::byte* small = panel + s.small_plane + 64 * b;
    for (int g = 0; g < 8; ++g) {
      const std::int64_t at = 8 * b + g;
      prefetch_lines(panel + s.panel_bytes + 272 * at, 5);
      const __m256 dx = _mm256_set1_ps(c.d[at]);
      for (int half = 0; half < 2; ++half) {
        const __m256i sum = iq4_sum(lines + 64 * (1 + 4 * g), half, levels, c.q + 32 * at);
        y[half] = scaled(y[half], sum, scale_iq4_xs(lines, small, g, half), dx);
      }
    }
  }
  put_rows(c, y);
}

static void gemv_mxfp4(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  const __m256i table = table_of(quant::mxfp4_levels, 12);
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    prefetch_lines(panel + s.panel_bytes + 272 * b, 5);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    const __m256i shift = _mm256_madd_epi16(broadcast(c.half + 2 * b), _mm256_set1_epi16(-12));
    const std::int8_t* q = c.q + 32 * b;
    for (int half = 0; half < 2; ++half) {
      __m256i low = _mm256_setzero_si256(), high = low;
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        const __m256i x = load_line(panel + 256 * b + 64 * w, half);
        const __m256i p = _mm256_shuffle_epi8(table, low_nibbles(x)), r = _mm256_shuffle_epi8(table, high_nibbles(x));
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(p, broadcast(q + 4 * w)));
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(r, broadcast(q + 16 + 4 * w)));
      }
      const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(widen(low), widen(high)), shift);
      y[half] = scaled(y[half], sum, half_power(small + panel_rows * b + 8 * half), dx);
    }
  }
  put_rows(c, y);
}

static void gemv_q2_k(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  const __m256i four = _mm256_set1_epi32(15);
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const std::byte* lines = panel + 64 * 20 * b;
    const std::byte* small = panel + s.small_plane + 64 * b;
    for (int g = 0; g < 8; ++g) {
      const std::int64_t at = 8 * b + g;
      prefetch_lines(panel + s.panel_bytes + 168 * at, 3);
      const __m256 dx = _mm256_set1_ps(c.d[at]);
      for (int half = 0; half < 2; ++half) {
        __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
        for (int w = 0; w < 8; ++w) {
          const __m256i level = byte_bits(load_line(lines + 64 * (4 + 8 * (g / 4) + w), half), 2 * (g % 4), 3);
          sum[w / 4] = _mm256_add_epi16(sum[w / 4], _mm256_maddubs_epi16(level, broadcast(c.q + 32 * at + 4 * w)));
        }
        const __m256i word = load_line(lines + 64 * (g / 2), half);
        const __m256i first = byte_of(word, g % 2 * 2), second = byte_of(word, g % 2 * 2 + 1);
        const __m256i dots = _mm256_add_epi32(_mm256_madd_epi16(sum[0], twice(_mm256_and_si256(first, four))),
                                              _mm256_madd_epi16(sum[1], twice(_mm256_and_si256(second, four))));
        const __m256i minima =
            _mm256_or_si256(_mm256_srli_epi32(first, 4), _mm256_slli_epi32(_mm256_srli_epi32(second, 4), 16));
        const __m256i least = _mm256_madd_epi16(minima, broadcast(c.half + 2 * at));
        y[half] = scaled(y[half], dots, load_halves(small + 16 * half), dx);
        const __m256 dm = _mm256_xor_ps(load_halves(small + 32 + 16 * half), _mm256_set1_ps(-0.0F));
        y[half] = scaled(y[half], least, dm, dx);
      }
    }
  }
  put_rows(c, y);
}

static void gemv_q3_k(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const std::byte* lines = panel + 64 * 27 * b;
    const std::byte* small = panel + s.small_plane + 32 * b;
    for (int g = 0; g < 8; ++g) {
      const std::int64_t at = 8 * b + g;
      prefetch_lines(panel + s.panel_bytes + 220 * at, 4);
      const __m256 dx = _mm256_set1_ps(c.d[at]);
      for (int half = 0; half < 2; ++half) {
        __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
        for (int w = 0; w < 8; ++w) {
          const __m256i low = byte_bits(load_line(lines + 64 * (8 + 8 * (g / 4) + w), half), 2 * (g % 4), 3);
          const __m256i high = byte_bits(load_line(lines + 64 * w, half), g, 1);
          const __m256i level = _mm256_or_si256(low, _mm256_slli_epi16(high, 2));
          sum[w / 4] = _mm256_add_epi16(sum[w / 4], _mm256_maddubs_epi16(level, broadcast(c.q + 32 * at + 4 * w)));
        }
        const __m256i first = twice(scale_q3(lines + 64 * 24, half, 2 * g));
        const __m256i second = twice(scale_q3(lines + 64 * 24, half, 2 * g + 1));
        const __m256i dots = _mm256_add_epi32(_mm256_madd_epi16(sum[0], first), _mm256_madd_epi16(sum[1], second));
        // The zero is 4.
        const __m256i minus = _mm256_slli_epi32(
            _mm256_madd_epi16(_mm256_blend_epi16(first, second, 0xaa), broadcast(c.half + 2 * at)), 2);
        y[half] = scaled(y[half], _mm256_sub_epi32(dots, minus), load_halves(small + 16 * half), dx);
      }
    }
  }
  put_rows(c, y);
}

static inline __m256 set_f(float x) { return _mm256_set1_ps(x); }
static inline __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
static inline void store_f(float* p, int part, __m256 x) { _mm256_storeu_ps(p + 8 * part, x); }
#include "device/cpu/kernels/half_rows.inc"
/// Panel after panel.
template <void (*kernel)(const PackedShape&, const std::byte*, const QuantColumn&)>
static void each(const GemvArgs& t) {
  QuantColumn column = t.column;
  for (int i = 0; i < t.panels; ++i) {
    column.out = t.out[i];
    kernel(*t.shape, t.panel + i * t.shape->panel_bytes, column);
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_rare_gemv(Kernels& kernels) noexcept {
  kernels.gemv[static_cast<int>(WeightType::iq4_nl)] = each<gemv_iq4_nl>;
  kernels.gemv[static_cast<int>(WeightType::iq4_xs)] = each<gemv_iq4_xs>;
  kernels.gemv[static_cast<int>(WeightType::mxfp4)] = each<gemv_mxfp4>;
  kernels.gemv[static_cast<int>(WeightType::q2_k)] = each<gemv_q2_k>;
  kernels.gemv[static_cast<int>(WeightType::q3_k)] = each<gemv_q3_k>;
  kernels.half_rows[static_cast<int>(WeightType::f16)] = half_rows<false>;
  kernels.half_rows[static_cast<int>(WeightType::bf16)] = half_rows<true>;
}

}  // namespace llminfer::cpu::avx2
#endif
