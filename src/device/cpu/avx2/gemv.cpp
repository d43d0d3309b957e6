// Panels times one column, levels unpacked in registers: decoding reads each weight once, so this streams, at four
// places at once. Sums are whole numbers and the fma order is that of the tiles, hence equal bits. Roof: memory
// bandwidth. One struct a format: what a part of a block adds to the results of 16 rows.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

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

/// Both nibbles of four words of 8 rows against 32 activations.
LLMINFER_INLINE __m256i nibble_sum(const std::byte* lines, int half, const std::int8_t* q) {
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    const __m256i x = load_line(lines + 64 * w, half);
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(low_nibbles(x), broadcast(q + 4 * w)));
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(high_nibbles(x), broadcast(q + 16 + 4 * w)));
  }
  return widen(s);
}

LLMINFER_INLINE __m256i five_sum(const std::byte* lines, int half, const std::int8_t* q) {
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

/// Levels with a scale, `zero` more than they mean; `sum_of`: 32 of them against 32 activations, 8 rows.
template <int line_count, int zero, __m256i (*sum_of)(const std::byte*, int, const std::int8_t*)>
struct OneScaled {
  static constexpr int lines = line_count, small = 32, steps = 1;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int, F (&y)[1][parts]) {
    const __m256 dx = _mm256_set1_ps(c.d[b]);
    const __m256i shift = _mm256_madd_epi16(broadcast(c.half + 2 * b), _mm256_set1_epi16(-zero));
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i sum = sum_of(at.lines, half, c.q + 32 * b);
      if (zero != 0) sum = _mm256_add_epi32(sum, shift);
      y[0][half] = scaled(y[0][half], sum, load_halves(at.small + 16 * half), dx);
    }
  }
};

/// Levels with a scale and a minimum.
template <int line_count, __m256i (*sum_of)(const std::byte*, int, const std::int8_t*)>
struct OneLeast {
  static constexpr int lines = line_count, small = 64, steps = 1;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int, F (&y)[1][parts]) {
    const __m256 dx = _mm256_set1_ps(c.d[b]), sum = _mm256_set1_ps(c.sum[b]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      y[0][half] = scaled(y[0][half], sum_of(at.lines, half, c.q + 32 * b), load_halves(at.small + 16 * half), dx);
      y[0][half] = _mm256_fmadd_ps(load_halves(at.small + 32 + 16 * half), sum, y[0][half]);
    }
  }
};

/// Signed bytes: |w| times q with w's sign. 2 * 128 * 127 still fits an int16.
LLMINFER_INLINE __m256i byte_sum(const std::byte* lines, int half, const std::int8_t* q) {
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int w = 0; w < 8; ++w) {
    const __m256i x = load_line(lines + 64 * w, half);
    s = _mm256_add_epi32(s, widen(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(broadcast(q + 4 * w), x))));
  }
  return s;
}

using OneQ4_0 = OneScaled<4, 8, nibble_sum>;
using OneQ4_1 = OneLeast<4, nibble_sum>;
using OneQ5_0 = OneScaled<5, 16, five_sum>;
using OneQ5_1 = OneLeast<5, five_sum>;
using OneQ8_0 = OneScaled<8, 0, byte_sum>;

/// Groups 2 j and 2 j + 1 of a block of Q4_K or Q5_K (`five`), 8 rows.
LLMINFER_INLINE __m256 k_groups(__m256 y, const OneBlock& at, const QuantColumn& c, std::int64_t b, int j, int half,
                                bool five) {
  const std::byte* lines = at.lines;
  const __m256i s0 = load_line(lines, half), s1 = load_line(lines + 64, half), s2 = load_line(lines + 128, half);
  const __m256 d = load_halves(at.small + 16 * half), dmin = load_halves(at.small + 32 + 16 * half);
  const std::byte* qh = lines + 64 * 3;
  const std::byte* qs = lines + 64 * (five ? 11 : 3);
  const std::int8_t* q = c.q + 256 * b + 64 * j;
  __m256i even[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, odd[2] = {even[0], even[0]};
#pragma GCC unroll 8
  for (int w = 0; w < 8; ++w) {
    const __m256i x = load_line(qs + 64 * (8 * j + w), half);
    __m256i low = low_nibbles(x), high = high_nibbles(x);
    if (five) {
      const __m256i bits = load_line(qh + 64 * w, half);
      low = _mm256_or_si256(low, _mm256_slli_epi16(byte_bits(bits, 2 * j, 1), 4));
      high = _mm256_or_si256(high, _mm256_slli_epi16(byte_bits(bits, 2 * j + 1, 1), 4));
    }
    even[w / 4] = _mm256_add_epi16(even[w / 4], _mm256_maddubs_epi16(low, broadcast(q + 4 * w)));
    odd[w / 4] = _mm256_add_epi16(odd[w / 4], _mm256_maddubs_epi16(high, broadcast(q + 32 + 4 * w)));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const int g = 2 * j + i;
    const std::int64_t group = 8 * b + g;
    const __m256i* sums = i == 0 ? even : odd;
    const __m256i sum = _mm256_add_epi32(widen(sums[0]), widen(sums[1]));
    y = scaled(y, sum, group_scale(d, s0, s2, g), _mm256_set1_ps(c.d[group]));
    y = _mm256_fmadd_ps(group_minimum(dmin, s1, s2, g), _mm256_set1_ps(c.sum[group]), y);
  }
  return y;
}

template <bool five>
struct OneK {
  static constexpr int lines = five ? 43 : 35, small = 64, steps = 4;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int step, F (&y)[1][parts]) {
    y[0][0] = k_groups(y[0][0], at, c, b, step, 0, five);
    y[0][1] = k_groups(y[0][1], at, c, b, step, 1, five);
  }
};
using OneQ4_K = OneK<false>;
using OneQ5_K = OneK<true>;

/// One group of 32 of Q6_K, 8 rows.
LLMINFER_INLINE __m256i q6_sum(const std::byte* lines, int g, int half, const std::int8_t* q, __m256i sums) {
  const __m256i word = load_line(lines + 64 * (48 + g / 2), half);
  const __m256i first = pair_of_scale(word, g % 2 * 2), second = pair_of_scale(word, g % 2 * 2 + 1);
  __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int w = 0; w < 8; w += 2) {
    const __m256i p = _mm256_maddubs_epi16(levels_q6(lines, g, w, half), broadcast(q + 4 * w));
    const __m256i r = _mm256_maddubs_epi16(levels_q6(lines, g, w + 1, half), broadcast(q + 4 * w + 4));
    s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_add_epi16(p, r), w < 4 ? first : second));
  }
  const __m256i minus = _mm256_slli_epi32(_mm256_madd_epi16(_mm256_blend_epi16(first, second, 0xaa), sums), 5);
  return _mm256_sub_epi32(s, minus);
}

struct OneQ6_K;
template <>
constexpr AskBy ask_by<OneQ6_K> = AskBy::loads;

struct OneQ6_K {
  static constexpr int lines = 52, small = 32, steps = 8;
  LLMINFER_INLINE void add(const OneBlock& at, const QuantColumn& c, std::int64_t b, int step, F (&y)[1][parts]) {
    const std::int64_t group = 8 * b + step;
    const __m256i sums = broadcast(c.half + 2 * group);
    const __m256 dx = _mm256_set1_ps(c.d[group]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i sum = q6_sum(at.lines, step, half, c.q + 32 * group, sums);
      y[0][half] = scaled(y[0][half], sum, load_halves(at.small + 16 * half), dx);
    }
  }
};

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_gemv(Kernels& kernels) noexcept {
  const auto set = [&](WeightType type, void (*gemv)(const GemvArgs&)) { kernels.gemv[static_cast<int>(type)] = gemv; };
  set(WeightType::q4_0, walk_all<OneQ4_0>);
  set(WeightType::q4_1, walk_all<OneQ4_1>);
  set(WeightType::q5_0, walk_all<OneQ5_0>);
  set(WeightType::q5_1, walk_all<OneQ5_1>);
  set(WeightType::q8_0, walk_all<OneQ8_0>);
  set(WeightType::q4_k, walk_all<OneQ4_K>);
  set(WeightType::q5_k, walk_all<OneQ5_K>);
  set(WeightType::q6_k, walk_all<OneQ6_K>);
}

}  // namespace llminfer::cpu::avx2
#endif
