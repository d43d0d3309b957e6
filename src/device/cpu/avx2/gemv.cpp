// One panel times one column, levels unpacked in registers: decoding reads each weight once, so this streams.
// Sums are whole numbers and the fma order is that of the tiles, hence equal bits. Roof: memory bandwidth.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/levels.h"
#include "device/cpu/avx2/reading.h"

static inline __m256i broadcast(const void* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

/// Asks for `lines` cache lines. A panel is two streams too short for the hardware's prefetcher to learn, so each
/// kernel asks for the next panel at the pace at which it reads its own; behind the last one that does no harm.
static inline __attribute__((always_inline)) void prefetch(const std::byte* p, int lines) {
#pragma GCC unroll 16
  for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(p + 64 * i), _MM_HINT_T0);
}

static inline __m256i widen(__m256i s) { return _mm256_madd_epi16(s, _mm256_set1_epi16(1)); }

/// y + sum * (d * dx)
static inline __m256 scale_add(__m256 y, __m256i sum, __m256 d, __m256 dx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, dx), y);
}

static inline void write(const QuantColumn& c, __m256 y0, __m256 y1) {
  _mm256_storeu_ps(c.out, y0);
  _mm256_storeu_ps(c.out + 8, y1);
}

/// Both nibbles of four words of 8 rows against 32 activations.
static inline __m256i nibble_sum(const std::byte* lines, int half, const std::int8_t* q) {
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m256i x = load_line(lines + 64 * w, half);
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(low_nibbles(x), broadcast(q + 4 * w)));
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(high_nibbles(x), broadcast(q + 16 + 4 * w)));
  }
  return widen(s);
}

static inline __m256i five_sum(const std::byte* lines, int half, const std::int8_t* q) {
  const __m256i qh = load_line(lines, half);
  __m256i low = _mm256_setzero_si256(), high = low;
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m256i x = load_line(lines + 64 * (w + 1), half);
    const __m256i a = with_fifth_bits(low_nibbles(x), qh, w);
    const __m256i b = with_fifth_bits(high_nibbles(x), qh, w + 4);
    low = _mm256_add_epi16(low, _mm256_maddubs_epi16(a, broadcast(q + 4 * w)));
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(b, broadcast(q + 16 + 4 * w)));
  }
  return _mm256_add_epi32(widen(low), widen(high));
}

static void gemv_q4_0(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    prefetch(panel + s.panel_bytes + 288 * b, 5);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    const __m256i shift = _mm256_madd_epi16(broadcast(c.half + 2 * b), _mm256_set1_epi16(-8));
    const __m256i s0 = nibble_sum(panel + 256 * b, 0, c.q + 32 * b), s1 = nibble_sum(panel + 256 * b, 1, c.q + 32 * b);
    y0 = scale_add(y0, _mm256_add_epi32(s0, shift), load_halves(small + 32 * b), dx);
    y1 = scale_add(y1, _mm256_add_epi32(s1, shift), load_halves(small + 32 * b + 16), dx);
  }
  write(c, y0, y1);
}

static void gemv_q4_1(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b, small += 64) {
    prefetch(panel + s.panel_bytes + 320 * b, 5);
    const __m256 dx = _mm256_set1_ps(c.d[b]), sum = _mm256_set1_ps(c.sum[b]);
    y0 = scale_add(y0, nibble_sum(panel + 256 * b, 0, c.q + 32 * b), load_halves(small), dx);
    y1 = scale_add(y1, nibble_sum(panel + 256 * b, 1, c.q + 32 * b), load_halves(small + 16), dx);
    y0 = _mm256_fmadd_ps(load_halves(small + 32), sum, y0);
    y1 = _mm256_fmadd_ps(load_halves(small + 48), sum, y1);
  }
  write(c, y0, y1);
}

static void gemv_q5_0(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    prefetch(panel + s.panel_bytes + 352 * b, 6);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    const __m256i shift = _mm256_madd_epi16(broadcast(c.half + 2 * b), _mm256_set1_epi16(-16));
    const __m256i s0 = five_sum(panel + 320 * b, 0, c.q + 32 * b), s1 = five_sum(panel + 320 * b, 1, c.q + 32 * b);
    y0 = scale_add(y0, _mm256_add_epi32(s0, shift), load_halves(small + 32 * b), dx);
    y1 = scale_add(y1, _mm256_add_epi32(s1, shift), load_halves(small + 32 * b + 16), dx);
  }
  write(c, y0, y1);
}

static void gemv_q5_1(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b, small += 64) {
    prefetch(panel + s.panel_bytes + 384 * b, 6);
    const __m256 dx = _mm256_set1_ps(c.d[b]), sum = _mm256_set1_ps(c.sum[b]);
    y0 = scale_add(y0, five_sum(panel + 320 * b, 0, c.q + 32 * b), load_halves(small), dx);
    y1 = scale_add(y1, five_sum(panel + 320 * b, 1, c.q + 32 * b), load_halves(small + 16), dx);
    y0 = _mm256_fmadd_ps(load_halves(small + 32), sum, y0);
    y1 = _mm256_fmadd_ps(load_halves(small + 48), sum, y1);
  }
  write(c, y0, y1);
}

/// Signed bytes: |w| times q with w's sign. 2 * 128 * 127 still fits an int16.
static inline __m256i byte_sum(const std::byte* lines, int half, const std::int8_t* q) {
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int w = 0; w < 8; ++w) {
    const __m256i x = load_line(lines + 64 * w, half);
    s = _mm256_add_epi32(s, widen(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(broadcast(q + 4 * w), x))));
  }
  return s;
}

static void gemv_q8_0(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    prefetch(panel + s.panel_bytes + 544 * b, 9);
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    y0 = scale_add(y0, byte_sum(panel + 512 * b, 0, c.q + 32 * b), load_halves(small + 32 * b), dx);
    y1 = scale_add(y1, byte_sum(panel + 512 * b, 1, c.q + 32 * b), load_halves(small + 32 * b + 16), dx);
  }
  write(c, y0, y1);
}

/// One block of 256 of Q4_K or Q5_K, 8 rows. `qh`, `qs`: its lines of fifth bits (Q5_K) and nibbles.
static inline __attribute__((always_inline)) __m256 k_block(__m256 y, const std::byte* lines, const std::byte* small,
                                                            const QuantColumn& c, std::int64_t b, int half, bool five,
                                                            const std::byte* next) {
  const __m256i s0 = load_line(lines, half), s1 = load_line(lines + 64, half), s2 = load_line(lines + 128, half);
  const __m256 d = load_halves(small + 16 * half), dmin = load_halves(small + 32 + 16 * half);
  const std::byte* qh = lines + 64 * 3;
  const std::byte* qs = lines + 64 * (five ? 11 : 3);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const std::int8_t* q = c.q + 256 * b + 64 * j;
    if (half == 0) prefetch(next + 64 * (five ? 11 : 9) * j, five ? 11 : 9);
    __m256i even = _mm256_setzero_si256(), odd = even, even2 = even, odd2 = even;
    for (int w = 0; w < 8; ++w) {
      const __m256i x = load_line(qs + 64 * (8 * j + w), half);
      __m256i low = low_nibbles(x), high = high_nibbles(x);
      if (five) {
        const __m256i bits = load_line(qh + 64 * w, half);
        low = _mm256_or_si256(low, _mm256_slli_epi16(byte_bits(bits, 2 * j, 1), 4));
        high = _mm256_or_si256(high, _mm256_slli_epi16(byte_bits(bits, 2 * j + 1, 1), 4));
      }
      const __m256i p = _mm256_maddubs_epi16(low, broadcast(q + 4 * w));
      const __m256i r = _mm256_maddubs_epi16(high, broadcast(q + 32 + 4 * w));
      if (w < 4) {
        even = _mm256_add_epi16(even, p);
        odd = _mm256_add_epi16(odd, r);
      } else {
        even2 = _mm256_add_epi16(even2, p);
        odd2 = _mm256_add_epi16(odd2, r);
      }
    }
    for (int i = 0; i < 2; ++i) {
      const int g = 2 * j + i;
      const std::int64_t at = 8 * b + g;
      const __m256i sum =
          i == 0 ? _mm256_add_epi32(widen(even), widen(even2)) : _mm256_add_epi32(widen(odd), widen(odd2));
      y = scale_add(y, sum, group_scale(d, s0, s2, g), _mm256_set1_ps(c.d[at]));
      y = _mm256_fmadd_ps(group_minimum(dmin, s1, s2, g), _mm256_set1_ps(c.sum[at]), y);
    }
  }
  return y;
}

static void gemv_q4_k(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    y0 = k_block(y0, panel + 64 * 35 * b, small + 64 * b, c, b, 0, false, panel + s.panel_bytes + 2304 * b);
    y1 = k_block(y1, panel + 64 * 35 * b, small + 64 * b, c, b, 1, false, panel);
  }
  write(c, y0, y1);
}

static void gemv_q5_k(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    y0 = k_block(y0, panel + 64 * 43 * b, small + 64 * b, c, b, 0, true, panel + s.panel_bytes + 2816 * b);
    y1 = k_block(y1, panel + 64 * 43 * b, small + 64 * b, c, b, 1, true, panel);
  }
  write(c, y0, y1);
}

/// One group of 32 of Q6_K, 8 rows.
static inline __m256i q6_sum(const std::byte* lines, int g, int half, const std::int8_t* q, __m256i sums,
                             const Later& later) {
  const __m256i word = load_line(lines + 64 * (48 + g / 2), half);
  const __m256i first = pair_of_scale(word, g % 2 * 2), second = pair_of_scale(word, g % 2 * 2 + 1);
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 8; w += 2) {
    // 6.5 lines: 7 of 8 times.
    if (w < 6 || half == 0) bring(later.near + 64 * (13 * g / 2 + w / 2 + 4 * half));
    const __m256i p = _mm256_maddubs_epi16(levels_q6(lines, g, w, half), broadcast(q + 4 * w));
    const __m256i r = _mm256_maddubs_epi16(levels_q6(lines, g, w + 1, half), broadcast(q + 4 * w + 4));
    s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_add_epi16(p, r), w < 4 ? first : second));
  }
  const __m256i minus = _mm256_slli_epi32(_mm256_madd_epi16(_mm256_blend_epi16(first, second, 0xaa), sums), 5);
  return _mm256_sub_epi32(s, minus);
}

static void gemv_q6_k(const PackedShape& s, const std::byte* panel, const QuantColumn& c) {
  const Reading reading(s, panel, panel + s.panel_bytes);
  const std::byte* small = panel + s.small_plane;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const std::byte* lines = panel + 64 * 52 * b;
    const Later later = reading.from(b);
    const __m256 d0 = load_halves(small + 32 * b), d1 = load_halves(small + 32 * b + 16);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const std::int64_t at = 8 * b + g;
      prefetch(later.far + 416 * g, 7);
      const __m256i sums = broadcast(c.half + 2 * at);
      const __m256 dx = _mm256_set1_ps(c.d[at]);
      y0 = scale_add(y0, q6_sum(lines, g, 0, c.q + 32 * at, sums, later), d0, dx);
      y1 = scale_add(y1, q6_sum(lines, g, 1, c.q + 32 * at, sums, later), d1, dx);
    }
  }
  write(c, y0, y1);
}

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

void add_gemv(Kernels& kernels) noexcept {
  const auto set = [&](WeightType type, void (*gemv)(const GemvArgs&)) { kernels.gemv[static_cast<int>(type)] = gemv; };
  set(WeightType::q4_0, each<gemv_q4_0>);
  set(WeightType::q4_1, each<gemv_q4_1>);
  set(WeightType::q5_0, each<gemv_q5_0>);
  set(WeightType::q5_1, each<gemv_q5_1>);
  set(WeightType::q8_0, each<gemv_q8_0>);
  set(WeightType::q4_k, each<gemv_q4_k>);
  set(WeightType::q5_k, each<gemv_q5_k>);
  set(WeightType::q6_k, each<gemv_q6_k>);
}

}  // namespace llminfer::cpu::avx2
#endif
