// Slab times 1 .. 4 columns: 16 rows are two vectors, a column's four bytes are broadcast to all rows.
//
// vpmaddubsw multiplies unsigned levels by signed activations and adds pairs in int16. Sums stay in int16 as long as
// they cannot overflow: 8 products of up to 4 bits (8 * 2 * 15 * 127 = 30,480), 4 of 5 bits (31,496), 2 of 6 bits
// (32,004); then vpmaddwd widens. So most of the work is one multiply and one cheap addition per 32 products. 8-bit
// levels are split into two nibbles. gcc spills the int16 accumulators unless each is pinned by an empty asm.
// Roof: 2 multiplies a cycle, 64 products a cycle and core.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {

#define LLMINFER_INLINE static inline __attribute__((always_inline))

LLMINFER_INLINE __m256i pin(__m256i x) {
  __asm__("" : "+x"(x));
  return x;
}

LLMINFER_INLINE __m256i broadcast(const void* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

LLMINFER_INLINE __m256i load_levels(const std::uint8_t (*levels)[panel_rows][4], int w, int half) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(levels[w]) + half);
}

/// Results so far: of each column, two vectors. In memory, since int16 accumulators need the registers.
struct alignas(32) Results {
  float y[tile_columns][panel_rows];
};

LLMINFER_INLINE void clear(Results& r, int count) {
  for (int c = 0; c < count; ++c) {
    _mm256_store_ps(r.y[c], _mm256_setzero_ps());
    _mm256_store_ps(r.y[c] + 8, _mm256_setzero_ps());
  }
}

LLMINFER_INLINE void write(const Results& r, const QuantColumn* columns, int count) {
  for (int c = 0; c < count; ++c) {
    _mm256_storeu_ps(columns[c].out, _mm256_load_ps(r.y[c]));
    _mm256_storeu_ps(columns[c].out + 8, _mm256_load_ps(r.y[c] + 8));
  }
}

/// y += sum * (d * dx)
LLMINFER_INLINE void scale_add(float* y, __m256i sum, __m256 d, __m256 dx) {
  _mm256_store_ps(y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, dx), _mm256_load_ps(y)));
}

/// Sums of words [first, first + words) into int16.
LLMINFER_INLINE void short_sums(const std::uint8_t (*levels)[panel_rows][4], const QuantColumn* columns, int count,
                                std::int64_t b, int first, int words, __m256i* s0, __m256i* s1) {
#pragma GCC unroll 8
  for (int w = first; w < first + words; ++w) {
    const __m256i w0 = load_levels(levels, w, 0), w1 = load_levels(levels, w, 1);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256i q = broadcast(columns[c].q + 32 * b + 4 * w);
      const __m256i p0 = _mm256_maddubs_epi16(w0, q), p1 = _mm256_maddubs_epi16(w1, q);
      s0[c] = pin(w == first ? p0 : _mm256_add_epi16(s0[c], p0));
      s1[c] = pin(w == first ? p1 : _mm256_add_epi16(s1[c], p1));
    }
  }
}

LLMINFER_INLINE __m256i widen(__m256i s) { return _mm256_madd_epi16(s, _mm256_set1_epi16(1)); }

/// Full sums of 32 levels: int16 for up to 4 bits, twice that for 5.
LLMINFER_INLINE void sums_32(const std::uint8_t (*levels)[panel_rows][4], const QuantColumn* columns, int count,
                             std::int64_t b, bool five, __m256i* s0, __m256i* s1) {
  if (!five) {
    short_sums(levels, columns, count, b, 0, 8, s0, s1);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      s0[c] = widen(s0[c]);
      s1[c] = widen(s1[c]);
    }
    return;
  }
  __m256i t0[4], t1[4];
  short_sums(levels, columns, count, b, 0, 4, t0, t1);
#pragma GCC unroll 4
  for (int c = 0; c < count; ++c) {
    t0[c] = widen(t0[c]);
    t1[c] = widen(t1[c]);
  }
  short_sums(levels, columns, count, b, 4, 4, s0, s1);
#pragma GCC unroll 4
  for (int c = 0; c < count; ++c) {
    s0[c] = _mm256_add_epi32(t0[c], widen(s0[c]));
    s1[c] = _mm256_add_epi32(t1[c], widen(s1[c]));
  }
}

LLMINFER_INLINE void scaled(const std::byte* slab, std::int64_t blocks, int zero, const QuantColumn* columns, int count,
                            bool five) {
  const SlabScaled* at = reinterpret_cast<const SlabScaled*>(slab);
  Results r;
  clear(r, count);
  const __m256i minus_zero = _mm256_set1_epi16(static_cast<short>(-zero));
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m256i s0[4], s1[4];
    sums_32(at[b].levels, columns, count, b, five, s0, s1);
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256i shift = _mm256_madd_epi16(broadcast(columns[c].half + 2 * b), minus_zero);
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], _mm256_add_epi32(s0[c], shift), d0, dx);
      scale_add(r.y[c] + 8, _mm256_add_epi32(s1[c], shift), d1, dx);
    }
  }
  write(r, columns, count);
}

LLMINFER_INLINE void with_min(const std::byte* slab, std::int64_t blocks, const QuantColumn* columns, int count,
                              bool five) {
  const SlabMin* at = reinterpret_cast<const SlabMin*>(slab);
  Results r;
  clear(r, count);
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m256i s0[4], s1[4];
    sums_32(at[b].levels, columns, count, b, five, s0, s1);
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
    const __m256 m0 = _mm256_load_ps(at[b].m), m1 = _mm256_load_ps(at[b].m + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]), sum = _mm256_set1_ps(columns[c].sum[b]);
      scale_add(r.y[c], s0[c], d0, dx);
      scale_add(r.y[c] + 8, s1[c], d1, dx);
      _mm256_store_ps(r.y[c], _mm256_fmadd_ps(m0, sum, _mm256_load_ps(r.y[c])));
      _mm256_store_ps(r.y[c] + 8, _mm256_fmadd_ps(m1, sum, _mm256_load_ps(r.y[c] + 8)));
    }
  }
  write(r, columns, count);
}

/// Low and high nibbles side by side: half as many columns at a time.
LLMINFER_INLINE void bytes(const std::byte* slab, std::int64_t blocks, const QuantColumn* columns, int count) {
  const SlabByte* at = reinterpret_cast<const SlabByte*>(slab);
  Results r;
  clear(r, count);
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m256i l0[2], l1[2], h0[2], h1[2];
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      const __m256i a0 = load_levels(at[b].low, w, 0), a1 = load_levels(at[b].low, w, 1);
      const __m256i b0 = load_levels(at[b].high, w, 0), b1 = load_levels(at[b].high, w, 1);
#pragma GCC unroll 2
      for (int c = 0; c < count; ++c) {
        const __m256i q = broadcast(columns[c].q + 32 * b + 4 * w);
        const __m256i p0 = _mm256_maddubs_epi16(a0, q), p1 = _mm256_maddubs_epi16(a1, q);
        const __m256i g0 = _mm256_maddubs_epi16(b0, q), g1 = _mm256_maddubs_epi16(b1, q);
        l0[c] = pin(w == 0 ? p0 : _mm256_add_epi16(l0[c], p0));
        l1[c] = pin(w == 0 ? p1 : _mm256_add_epi16(l1[c], p1));
        h0[c] = pin(w == 0 ? g0 : _mm256_add_epi16(h0[c], g0));
        h1[c] = pin(w == 0 ? g1 : _mm256_add_epi16(h1[c], g1));
      }
    }
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
    const __m256i sixteen = _mm256_set1_epi16(16);
#pragma GCC unroll 2
    for (int c = 0; c < count; ++c) {
      const __m256i shift = _mm256_madd_epi16(broadcast(columns[c].half + 2 * b), _mm256_set1_epi16(-128));
      const __m256i s0 = _mm256_add_epi32(widen(l0[c]), _mm256_madd_epi16(h0[c], sixteen));
      const __m256i s1 = _mm256_add_epi32(widen(l1[c]), _mm256_madd_epi16(h1[c], sixteen));
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], _mm256_add_epi32(s0, shift), d0, dx);
      scale_add(r.y[c] + 8, _mm256_add_epi32(s1, shift), d1, dx);
    }
  }
  write(r, columns, count);
}

LLMINFER_INLINE __m256i load_pairs(const std::int16_t (*pairs)[2], int half) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(pairs) + half);
}

/// Two words at a time in int16, then vpmaddwd by the scale of their 16 weights.
LLMINFER_INLINE void groups(const std::byte* slab, std::int64_t blocks, const QuantColumn* columns, int count,
                            bool minima) {
  const SlabGroup* at = reinterpret_cast<const SlabGroup*>(slab);
  Results r;
  clear(r, count);
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m256i s0[4], s1[4];
#pragma GCC unroll 4
    for (int w = 0; w < 8; w += 2) {
      const __m256i a0 = load_levels(at[b].levels, w, 0), a1 = load_levels(at[b].levels, w, 1);
      const __m256i b0 = load_levels(at[b].levels, w + 1, 0), b1 = load_levels(at[b].levels, w + 1, 1);
      const __m256i f0 = load_pairs(at[b].scale[w / 4], 0), f1 = load_pairs(at[b].scale[w / 4], 1);
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) {
        const __m256i q0 = broadcast(columns[c].q + 32 * b + 4 * w), q1 = broadcast(columns[c].q + 32 * b + 4 * w + 4);
        const __m256i p0 = _mm256_add_epi16(_mm256_maddubs_epi16(a0, q0), _mm256_maddubs_epi16(b0, q1));
        const __m256i p1 = _mm256_add_epi16(_mm256_maddubs_epi16(a1, q0), _mm256_maddubs_epi16(b1, q1));
        const __m256i t0 = _mm256_madd_epi16(p0, f0), t1 = _mm256_madd_epi16(p1, f1);
        s0[c] = pin(w == 0 ? t0 : _mm256_add_epi32(s0[c], t0));
        s1[c] = pin(w == 0 ? t1 : _mm256_add_epi32(s1[c], t1));
      }
    }
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256i half = broadcast(columns[c].half + 2 * b);
      const __m256i k0 = _mm256_madd_epi16(load_pairs(at[b].pair, 0), half);
      const __m256i k1 = _mm256_madd_epi16(load_pairs(at[b].pair, 1), half);
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      if (!minima) {
        scale_add(r.y[c], _mm256_add_epi32(s0[c], k0), d0, dx);
        scale_add(r.y[c] + 8, _mm256_add_epi32(s1[c], k1), d1, dx);
      } else {
        scale_add(r.y[c], s0[c], d0, dx);
        scale_add(r.y[c] + 8, s1[c], d1, dx);
        scale_add(r.y[c], k0, _mm256_load_ps(at[b].dm), dx);
        scale_add(r.y[c] + 8, k1, _mm256_load_ps(at[b].dm + 8), dx);
      }
    }
  }
  write(r, columns, count);
}

// One entry per kind; the number of columns becomes a constant of each inlined copy.

static void tile_nibble(const std::byte* slab, std::int64_t n, int zero, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      scaled(slab, n, zero, c, 1, false);
      break;
    case 2:
      scaled(slab, n, zero, c, 2, false);
      break;
    case 3:
      scaled(slab, n, zero, c, 3, false);
      break;
    default:
      scaled(slab, n, zero, c, 4, false);
      break;
  }
}

static void tile_five(const std::byte* slab, std::int64_t n, int zero, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      scaled(slab, n, zero, c, 1, true);
      break;
    case 2:
      scaled(slab, n, zero, c, 2, true);
      break;
    case 3:
      scaled(slab, n, zero, c, 3, true);
      break;
    default:
      scaled(slab, n, zero, c, 4, true);
      break;
  }
}

static void tile_nibble_min(const std::byte* slab, std::int64_t n, int, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      with_min(slab, n, c, 1, false);
      break;
    case 2:
      with_min(slab, n, c, 2, false);
      break;
    case 3:
      with_min(slab, n, c, 3, false);
      break;
    default:
      with_min(slab, n, c, 4, false);
      break;
  }
}

static void tile_five_min(const std::byte* slab, std::int64_t n, int, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      with_min(slab, n, c, 1, true);
      break;
    case 2:
      with_min(slab, n, c, 2, true);
      break;
    case 3:
      with_min(slab, n, c, 3, true);
      break;
    default:
      with_min(slab, n, c, 4, true);
      break;
  }
}

static void tile_byte(const std::byte* slab, std::int64_t n, int, const QuantColumn* c, int count) {
  for (; count > 1; count -= 2, c += 2) bytes(slab, n, c, 2);
  if (count == 1) bytes(slab, n, c, 1);
}

static void tile_group(const std::byte* slab, std::int64_t n, int, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      groups(slab, n, c, 1, false);
      break;
    case 2:
      groups(slab, n, c, 2, false);
      break;
    case 3:
      groups(slab, n, c, 3, false);
      break;
    default:
      groups(slab, n, c, 4, false);
      break;
  }
}

static void tile_group_min(const std::byte* slab, std::int64_t n, int, const QuantColumn* c, int count) {
  switch (count) {
    case 1:
      groups(slab, n, c, 1, true);
      break;
    case 2:
      groups(slab, n, c, 2, true);
      break;
    case 3:
      groups(slab, n, c, 3, true);
      break;
    default:
      groups(slab, n, c, 4, true);
      break;
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_tiles(Kernels& kernels) noexcept {
  kernels.tile[static_cast<int>(SlabKind::nibble)] = tile_nibble;
  kernels.tile[static_cast<int>(SlabKind::nibble_min)] = tile_nibble_min;
  kernels.tile[static_cast<int>(SlabKind::five)] = tile_five;
  kernels.tile[static_cast<int>(SlabKind::five_min)] = tile_five_min;
  kernels.tile[static_cast<int>(SlabKind::byte)] = tile_byte;
  kernels.tile[static_cast<int>(SlabKind::group)] = tile_group;
  kernels.tile[static_cast<int>(SlabKind::group_min)] = tile_group_min;
}

}  // namespace llminfer::cpu::avx2
#endif
