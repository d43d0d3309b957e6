// Panels to slabs: every output byte equals that of portable/unpack.cpp.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/levels.h"
#include "device/cpu/avx2/put.h"

static inline void nibbles_32(const std::byte* lines, std::uint8_t (*levels)[panel_rows][4]) {
  for (int w = 0; w < 4; ++w) {
    for (int half = 0; half < 2; ++half) {
      const __m256i x = load_line(lines + 64 * w, half);
      put(levels, w, half, low_nibbles(x));
      put(levels, w + 4, half, high_nibbles(x));
    }
  }
}

static inline void fives_32(const std::byte* lines, std::uint8_t (*levels)[panel_rows][4]) {
  for (int half = 0; half < 2; ++half) {
    const __m256i qh = load_line(lines, half);
    for (int w = 0; w < 4; ++w) {
      const __m256i x = load_line(lines + 64 * (w + 1), half);
      put(levels, w, half, _mm256_or_si256(low_nibbles(x), fifth_bits(qh, w)));
      put(levels, w + 4, half, _mm256_or_si256(high_nibbles(x), fifth_bits(qh, w + 4)));
    }
  }
}

static void unpack_q4_0(const UnpackArgs& a) {
  SlabScaled* out = reinterpret_cast<SlabScaled*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    nibbles_32(a.words + 256 * b, out[b].levels);
    put16(out[b].d, small + 32 * b);
  }
}

static void unpack_q4_1(const UnpackArgs& a) {
  SlabMin* out = reinterpret_cast<SlabMin*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    nibbles_32(a.words + 256 * b, out[b].levels);
    put16(out[b].d, small + 64 * b);
    put16(out[b].m, small + 64 * b + 32);
  }
}

static void unpack_q5_0(const UnpackArgs& a) {
  SlabScaled* out = reinterpret_cast<SlabScaled*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    fives_32(a.words + 320 * b, out[b].levels);
    put16(out[b].d, small + 32 * b);
  }
}

static void unpack_q5_1(const UnpackArgs& a) {
  SlabMin* out = reinterpret_cast<SlabMin*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    fives_32(a.words + 320 * b, out[b].levels);
    put16(out[b].d, small + 64 * b);
    put16(out[b].m, small + 64 * b + 32);
  }
}

static void unpack_q8_0(const UnpackArgs& a) {
  SlabByte* out = reinterpret_cast<SlabByte*>(a.slab);
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    for (int w = 0; w < 8; ++w) {
      for (int half = 0; half < 2; ++half) put_wide(out[b], w, half, load_line(a.words + 512 * b + 64 * w, half));
    }
    put16(out[b].d, a.small + 32 * b);
  }
}

/// Scales and minima of the 8 groups of a Q4_K or Q5_K block.
static inline void k_scales(const std::byte* lines, const std::byte* small, SlabMin* out) {
  for (int half = 0; half < 2; ++half) {
    const __m256i s0 = load_line(lines, half), s1 = load_line(lines + 64, half), s2 = load_line(lines + 128, half);
    const __m256 d = load_halves(small + 16 * half), dmin = load_halves(small + 32 + 16 * half);
    for (int g = 0; g < 8; ++g) {
      _mm256_store_ps(out[g].d + 8 * half, group_scale(d, s0, s2, g));
      _mm256_store_ps(out[g].m + 8 * half, group_minimum(dmin, s1, s2, g));
    }
  }
}

static void unpack_q4_k(const UnpackArgs& a) {
  SlabMin* out = reinterpret_cast<SlabMin*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 35 * b;
    k_scales(lines, small + 64 * b, out);
    for (int i = 0; i < 32; ++i) {  // word i % 8 of groups 2 (i / 8) and 2 (i / 8) + 1
      for (int half = 0; half < 2; ++half) {
        const __m256i x = load_line(lines + 64 * (3 + i), half);
        put(out[i / 8 * 2].levels, i % 8, half, low_nibbles(x));
        put(out[i / 8 * 2 + 1].levels, i % 8, half, high_nibbles(x));
      }
    }
  }
}

static void unpack_q5_k(const UnpackArgs& a) {
  SlabMin* out = reinterpret_cast<SlabMin*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 43 * b;
    k_scales(lines, small + 64 * b, out);
    for (int i = 0; i < 32; ++i) {
      const int g = i / 8 * 2, w = i % 8;
      for (int half = 0; half < 2; ++half) {
        const __m256i x = load_line(lines + 64 * (11 + i), half), qh = load_line(lines + 64 * (3 + w), half);
        put(out[g].levels, w, half, _mm256_or_si256(low_nibbles(x), _mm256_slli_epi16(byte_bits(qh, g, 1), 4)));
        put(out[g + 1].levels, w, half,
            _mm256_or_si256(high_nibbles(x), _mm256_slli_epi16(byte_bits(qh, g + 1, 1), 4)));
      }
    }
  }
}

static void unpack_q6_k(const UnpackArgs& a) {
  SlabGroup* out = reinterpret_cast<SlabGroup*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 52 * b;
    for (int g = 0; g < 8; ++g) {
      for (int half = 0; half < 2; ++half) {
        for (int w = 0; w < 8; ++w) put(out[g].levels, w, half, levels_q6(lines, g, w, half));
        const __m256i word = load_line(lines + 64 * (48 + g / 2), half);
        const __m256i first = pair_of_scale(word, g % 2 * 2), second = pair_of_scale(word, g % 2 * 2 + 1);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out[g].scale[0]) + half, first);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out[g].scale[1]) + half, second);
        const __m256i both = _mm256_blend_epi16(first, second, 0xaa);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out[g].pair) + half,
                           _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(both, 5)));
        _mm256_store_ps(out[g].dm + 8 * half, _mm256_setzero_ps());
      }
      put16(out[g].d, small + 32 * b);
    }
  }
}

static void unpack_f16(const UnpackArgs& a) {
  float* out = reinterpret_cast<float*>(a.slab);
  const __m256i even = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13,
                                        2, 3, 6, 7, 10, 11, 14, 15);
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 32) {
    for (int half = 0; half < 2; ++half) {
      // Halves of four rows: even columns, then odd ones; then rows 0-7 of the even column beside those of the odd one.
      const __m256i x = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(load_line(a.words + 64 * b, half), even), 0xd8);
      _mm256_store_ps(out + 8 * half, _mm256_cvtph_ps(_mm256_castsi256_si128(x)));
      _mm256_store_ps(out + 16 + 8 * half, _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
    }
  }
}

static void unpack_bf16(const UnpackArgs& a) {
  float* out = reinterpret_cast<float*>(a.slab);
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 32) {
    for (int half = 0; half < 2; ++half) {
      const __m256i x = load_line(a.words + 64 * b, half);
      _mm256_store_ps(out + 8 * half, _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)));
      _mm256_store_ps(out + 16 + 8 * half,
                      _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000U)))));
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_unpackers(Kernels& kernels) noexcept {
  const auto set = [&](WeightType type, void (*unpack)(const UnpackArgs&)) {
    kernels.unpack[static_cast<int>(type)] = unpack;
  };
  set(WeightType::q4_0, unpack_q4_0);
  set(WeightType::q4_1, unpack_q4_1);
  set(WeightType::q5_0, unpack_q5_0);
  set(WeightType::q5_1, unpack_q5_1);
  set(WeightType::q8_0, unpack_q8_0);
  set(WeightType::q4_k, unpack_q4_k);
  set(WeightType::q5_k, unpack_q5_k);
  set(WeightType::q6_k, unpack_q6_k);
  set(WeightType::f16, unpack_f16);
  set(WeightType::bf16, unpack_bf16);
  add_rare_unpackers(kernels);
}

}  // namespace llminfer::cpu::avx2
#endif
