// Panels to slabs for the formats of four bits by table (IQ4_NL, IQ4_XS, MXFP4) and of two and three bits (Q2_K, Q3_K).
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
#include "device/cpu/avx2/put.h"

/// 32 weights of IQ4_NL's levels in four lines.
static inline void iq4_32(const std::byte* lines, SlabByte& out, __m256i levels) {
  for (int w = 0; w < 4; ++w) {
    for (int half = 0; half < 2; ++half) {
      const __m256i x = load_line(lines + 64 * w, half);
      put_wide(out, w, half, _mm256_shuffle_epi8(levels, low_nibbles(x)));
      put_wide(out, w + 4, half, _mm256_shuffle_epi8(levels, high_nibbles(x)));
    }
  }
}

static void unpack_iq4_nl(const UnpackArgs& a) {
  SlabByte* out = reinterpret_cast<SlabByte*>(a.slab);
  const std::byte* small = a.small;
  const __m256i levels = table_of(quant::iq4_levels, 0);
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    iq4_32(a.words + 256 * b, out[b], levels);
    put16(out[b].d, small + 32 * b);
  }
}

static void unpack_iq4_xs(const UnpackArgs& a) {
  SlabByte* out = reinterpret_cast<SlabByte*>(a.slab);
  const __m256i levels = table_of(quant::iq4_levels, 0);
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 33 * b;
    const std::byte* small = a.small + 64 * b;
    for (int g = 0; g < 8; ++g) {
      iq4_32(lines + 64 * (1 + 4 * g), out[g], levels);
      for (int half = 0; half < 2; ++half) {
        _mm256_store_ps(out[g].d + 8 * half, scale_iq4_xs(lines, small, g, half));
      }
    }
  }
}

static void unpack_mxfp4(const UnpackArgs& a) {
  SlabScaled* out = reinterpret_cast<SlabScaled*>(a.slab);
  const std::byte* small = a.small;
  const __m256i table = table_of(quant::mxfp4_levels, 12);
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    for (int half = 0; half < 2; ++half) {
      for (int w = 0; w < 4; ++w) {
        const __m256i x = load_line(a.words + 256 * b + 64 * w, half);
        put(out[b].levels, w, half, _mm256_shuffle_epi8(table, low_nibbles(x)));
        put(out[b].levels, w + 4, half, _mm256_shuffle_epi8(table, high_nibbles(x)));
      }
      _mm256_store_ps(out[b].d + 8 * half, half_power(small + panel_rows * b + 8 * half));
    }
  }
}

static void unpack_q2_k(const UnpackArgs& a) {
  SlabGroup* out = reinterpret_cast<SlabGroup*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 20 * b;
    for (int g = 0; g < 8; ++g) {
      for (int half = 0; half < 2; ++half) {
        for (int w = 0; w < 8; ++w) {
          put(out[g].levels, w, half, byte_bits(load_line(lines + 64 * (4 + 8 * (g / 4) + w), half), 2 * (g % 4), 3));
        }
        const __m256i word = load_line(lines + 64 * (g / 2), half);
        const __m256i first = byte_of(word, g % 2 * 2), second = byte_of(word, g % 2 * 2 + 1);
        put_pairs(out[g].scale[0], half, twice(_mm256_and_si256(first, _mm256_set1_epi32(15))));
        put_pairs(out[g].scale[1], half, twice(_mm256_and_si256(second, _mm256_set1_epi32(15))));
        put_pairs(out[g].pair, half,
                  _mm256_or_si256(_mm256_srli_epi32(first, 4), _mm256_slli_epi32(_mm256_srli_epi32(second, 4), 16)));
        _mm256_store_ps(out[g].dm + 8 * half,
                        _mm256_xor_ps(load_halves(small + 64 * b + 32 + 16 * half), _mm256_set1_ps(-0.0F)));
      }
      put16(out[g].d, small + 64 * b);
    }
  }
}

static void unpack_q3_k(const UnpackArgs& a) {
  SlabGroup* out = reinterpret_cast<SlabGroup*>(a.slab);
  const std::byte* small = a.small;
  for (std::int64_t b = 0; b < a.blocks; ++b, out += 8) {
    const std::byte* lines = a.words + 64 * 27 * b;
    for (int g = 0; g < 8; ++g) {
      for (int half = 0; half < 2; ++half) {
        for (int w = 0; w < 8; ++w) {
          const __m256i low = byte_bits(load_line(lines + 64 * (8 + 8 * (g / 4) + w), half), 2 * (g % 4), 3);
          const __m256i high = byte_bits(load_line(lines + 64 * w, half), g, 1);
          put(out[g].levels, w, half, _mm256_or_si256(low, _mm256_slli_epi16(high, 2)));
        }
        const __m256i first = twice(scale_q3(lines + 64 * 24, half, 2 * g));
        const __m256i second = twice(scale_q3(lines + 64 * 24, half, 2 * g + 1));
        put_pairs(out[g].scale[0], half, first);
        put_pairs(out[g].scale[1], half, second);
        put_pairs(
            out[g].pair, half,
            _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(_mm256_blend_epi16(first, second, 0xaa), 2)));
        _mm256_store_ps(out[g].dm + 8 * half, _mm256_setzero_ps());
      }
      put16(out[g].d, small + 32 * b);
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_rare_unpackers(Kernels& kernels) noexcept {
  kernels.unpack[static_cast<int>(WeightType::iq4_nl)] = unpack_iq4_nl;
  kernels.unpack[static_cast<int>(WeightType::iq4_xs)] = unpack_iq4_xs;
  kernels.unpack[static_cast<int>(WeightType::mxfp4)] = unpack_mxfp4;
  kernels.unpack[static_cast<int>(WeightType::q2_k)] = unpack_q2_k;
  kernels.unpack[static_cast<int>(WeightType::q3_k)] = unpack_q3_k;
}

}  // namespace llminfer::cpu::avx2
#endif
