// Slab times 1 .. 4 columns: 16 rows are two vectors, a column's four bytes are broadcast to all rows.
//
// vpmaddubsw multiplies unsigned levels by signed activations and adds pairs in int16. Sums stay in int16 as long as
// their result fits, whatever was between: 16 products of up to 4 bits (16 * 15 * 127 = 30,480), 8 of 5 bits (31,496);
// where the middle level stands for zero and sums begin with what it takes off (`shift`), 16 of 5 bits (16 * 16 * 127 =
// 32,512) and 8 of 6 bits (8 * 32 * 127, the same). Then vpmaddwd widens. So most of the work is one multiply and one
// cheap addition per 32 products. 8-bit levels and their activations are int16: one of each per 16 products.
// Roof: 2 multiplies a cycle, 64 products a cycle and core. On Zen 3 additions may take the multipliers' ports: 1.6
// pairs of vpmaddubsw and vpaddw a cycle were measured.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {

#include "device/cpu/avx2/sums.h"

LLMINFER_INLINE __m256i load_levels(const std::uint8_t (*levels)[panel_rows][4], int w, int half) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(levels[w]) + half);
}

/// Adds words [first, first + words) to int16 sums, or begins them.
LLMINFER_INLINE void short_sums(const std::uint8_t (*levels)[panel_rows][4], const QuantColumn* columns, int count,
                                std::int64_t b, int first, int words, bool begin, __m256i* s0, __m256i* s1) {
#pragma GCC unroll 8
  for (int w = first; w < first + words; ++w) {
    const __m256i w0 = load_levels(levels, w, 0), w1 = load_levels(levels, w, 1);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256i q = broadcast(columns[c].q + 32 * b + 4 * w);
      const __m256i p0 = _mm256_maddubs_epi16(w0, q), p1 = _mm256_maddubs_epi16(w1, q);
      s0[c] = pin(begin && w == first ? p0 : _mm256_add_epi16(s0[c], p0));
      s1[c] = pin(begin && w == first ? p1 : _mm256_add_epi16(s1[c], p1));
    }
  }
}

/// Full sums of 32 levels: int16 for up to 4 bits, twice that for 5.
LLMINFER_INLINE void sums_32(const std::uint8_t (*levels)[panel_rows][4], const QuantColumn* columns, int count,
                             std::int64_t b, bool five, __m256i* s0, __m256i* s1) {
  if (!five) {
    short_sums(levels, columns, count, b, 0, 8, true, s0, s1);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      s0[c] = widen(s0[c]);
      s1[c] = widen(s1[c]);
    }
    return;
  }
  __m256i t0[4], t1[4];
  short_sums(levels, columns, count, b, 0, 4, true, t0, t1);
#pragma GCC unroll 4
  for (int c = 0; c < count; ++c) {
    t0[c] = widen(t0[c]);
    t1[c] = widen(t1[c]);
  }
  short_sums(levels, columns, count, b, 4, 4, true, s0, s1);
#pragma GCC unroll 4
  for (int c = 0; c < count; ++c) {
    s0[c] = _mm256_add_epi32(t0[c], widen(s0[c]));
    s1[c] = _mm256_add_epi32(t1[c], widen(s1[c]));
  }
}

LLMINFER_INLINE void scaled(const TileArgs& t, int count) {
  const SlabScaled* at = reinterpret_cast<const SlabScaled*>(t.slab);
  const QuantColumn* columns = t.columns;
  Results r;
  begin(r, columns, count, t.add);
  const std::byte* ahead = t.ahead.at;
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    prefetch(ahead, t.ahead.stride);
    ahead += t.ahead.step;
    __m256i s0[4], s1[4];
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) s0[c] = s1[c] = broadcast(columns[c].shift + shift_words * b);
    short_sums(at[b].levels, columns, count, b, 0, 8, false, s0, s1);
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], widen(s0[c]), d0, dx);
      scale_add(r.y[c] + 8, widen(s1[c]), d1, dx);
    }
  }
  write(r, columns, count);
}

LLMINFER_INLINE void with_min(const TileArgs& t, int count, bool five) {
  const SlabMin* at = reinterpret_cast<const SlabMin*>(t.slab);
  const QuantColumn* columns = t.columns;
  Results r;
  begin(r, columns, count, t.add);
  const std::byte* ahead = t.ahead.at;
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    prefetch(ahead, t.ahead.stride);
    ahead += t.ahead.step;
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

LLMINFER_INLINE __m256i load_pairs(const std::int16_t (*pairs)[2], int half) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(pairs) + half);
}

/// int16 levels: two products a multiplication, no more than 32 * 128 * 127 in a sum.
LLMINFER_INLINE void bytes(const TileArgs& t, int count) {
  const SlabByte* at = reinterpret_cast<const SlabByte*>(t.slab);
  const QuantColumn* columns = t.columns;
  Results r;
  begin(r, columns, count, t.add);
  const std::byte* ahead = t.ahead.at;
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    prefetch(ahead, t.ahead.stride);
    ahead += t.ahead.step;
    __m256i s0[4], s1[4];
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      const __m256i a0 = load_pairs(at[b].levels[0][w], 0), a1 = load_pairs(at[b].levels[0][w], 1);
      const __m256i b0 = load_pairs(at[b].levels[1][w], 0), b1 = load_pairs(at[b].levels[1][w], 1);
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) {
        const __m256i even = broadcast(columns[c].wide + 32 * b + 4 * w);
        const __m256i p0 = _mm256_madd_epi16(a0, even), p1 = _mm256_madd_epi16(a1, even);
        s0[c] = pin(w == 0 ? p0 : _mm256_add_epi32(s0[c], p0));
        s1[c] = pin(w == 0 ? p1 : _mm256_add_epi32(s1[c], p1));
        const __m256i odd = broadcast(columns[c].wide + 32 * b + 4 * w + 2);
        s0[c] = pin(_mm256_add_epi32(s0[c], _mm256_madd_epi16(b0, odd)));
        s1[c] = pin(_mm256_add_epi32(s1[c], _mm256_madd_epi16(b1, odd)));
      }
    }
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], s0[c], d0, dx);
      scale_add(r.y[c] + 8, s1[c], d1, dx);
    }
  }
  write(r, columns, count);
}

/// 16 weights in int16, then vpmaddwd by their scale.
LLMINFER_INLINE void group_sums(const SlabGroup& slab, const QuantColumn* columns, int count, std::int64_t b,
                                bool minima, __m256i* s0, __m256i* s1) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256i p0[4], p1[4];
    if (!minima) {
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) p0[c] = p1[c] = broadcast(columns[c].shift + shift_words * b + 2 * half);
    }
    short_sums(slab.levels, columns, count, b, 4 * half, 4, minima, p0, p1);
    const __m256i f0 = load_pairs(slab.scale[half], 0), f1 = load_pairs(slab.scale[half], 1);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256i t0 = _mm256_madd_epi16(p0[c], f0), t1 = _mm256_madd_epi16(p1[c], f1);
      s0[c] = half == 0 ? t0 : _mm256_add_epi32(s0[c], t0);
      s1[c] = half == 0 ? t1 : _mm256_add_epi32(s1[c], t1);
    }
  }
}

LLMINFER_INLINE void groups(const TileArgs& t, int count, bool minima) {
  const SlabGroup* at = reinterpret_cast<const SlabGroup*>(t.slab);
  const QuantColumn* columns = t.columns;
  Results r;
  begin(r, columns, count, t.add);
  const std::byte* ahead = t.ahead.at;
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    prefetch(ahead, t.ahead.stride);
    ahead += t.ahead.step;
    __m256i s0[4], s1[4];
    group_sums(at[b], columns, count, b, minima, s0, s1);
    const __m256 d0 = _mm256_load_ps(at[b].d), d1 = _mm256_load_ps(at[b].d + 8);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], s0[c], d0, dx);
      scale_add(r.y[c] + 8, s1[c], d1, dx);
      if (!minima) continue;
      const __m256i half = broadcast(columns[c].half + 2 * b);
      scale_add(r.y[c], _mm256_madd_epi16(load_pairs(at[b].pair, 0), half), _mm256_load_ps(at[b].dm), dx);
      scale_add(r.y[c] + 8, _mm256_madd_epi16(load_pairs(at[b].pair, 1), half), _mm256_load_ps(at[b].dm + 8), dx);
    }
  }
  write(r, columns, count);
}

// One entry per kind; the number of columns becomes a constant of each inlined copy.

static void tile_scaled(const TileArgs& t) {
  switch (t.count) {
    case 1:
      scaled(t, 1);
      break;
    case 2:
      scaled(t, 2);
      break;
    case 3:
      scaled(t, 3);
      break;
    default:
      scaled(t, 4);
      break;
  }
}

static void tile_nibble_min(const TileArgs& t) {
  switch (t.count) {
    case 1:
      with_min(t, 1, false);
      break;
    case 2:
      with_min(t, 2, false);
      break;
    case 3:
      with_min(t, 3, false);
      break;
    default:
      with_min(t, 4, false);
      break;
  }
}

static void tile_five_min(const TileArgs& t) {
  switch (t.count) {
    case 1:
      with_min(t, 1, true);
      break;
    case 2:
      with_min(t, 2, true);
      break;
    case 3:
      with_min(t, 3, true);
      break;
    default:
      with_min(t, 4, true);
      break;
  }
}

static void tile_byte(const TileArgs& t) {
  switch (t.count) {
    case 1:
      bytes(t, 1);
      break;
    case 2:
      bytes(t, 2);
      break;
    case 3:
      bytes(t, 3);
      break;
    default:
      bytes(t, 4);
      break;
  }
}

static void tile_group(const TileArgs& t) {
  switch (t.count) {
    case 1:
      groups(t, 1, false);
      break;
    case 2:
      groups(t, 2, false);
      break;
    case 3:
      groups(t, 3, false);
      break;
    default:
      groups(t, 4, false);
      break;
  }
}

static void tile_group_min(const TileArgs& t) {
  switch (t.count) {
    case 1:
      groups(t, 1, true);
      break;
    case 2:
      groups(t, 2, true);
      break;
    case 3:
      groups(t, 3, true);
      break;
    default:
      groups(t, 4, true);
      break;
  }
}

/// Minus `zero` times the sums of a block's activations, of its first and second half in two int16 each: those of bytes
/// 0 and 1 of all words, those of bytes 2 and 3. With `whole`, of the block instead of its first half.
LLMINFER_INLINE void shifts(const std::int8_t* q, std::int64_t n, int zero, std::int16_t* out, bool whole) {
  const __m128i minus = _mm_set1_epi16(static_cast<short>(-zero));
  for (std::int64_t i = 0; i < n; i += 32, out += shift_words) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + i));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
    // Of four words each: word 0 + 2 and 1 + 3, then both; a dword is a word's two sums.
    __m256i s = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1));
    __m128i first = _mm256_castsi256_si128(s);
    const __m128i second = _mm256_extracti128_si256(s, 1);
    if (whole) first = _mm_add_epi16(first, second);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_mullo_epi16(_mm_unpacklo_epi32(first, second), minus));
  }
}

static void shift_blocks(const std::int8_t* q, std::int64_t n, int zero, std::int16_t* out) {
  shifts(q, n, zero, out, true);
}

static void shift_halves(const std::int8_t* q, std::int64_t n, int zero, std::int16_t* out) {
  shifts(q, n, zero, out, false);
}

/// Words of eight bytes: each two of 4 to the order 0, 2, 1, 3, then to int16.
static void widen_levels(const std::int8_t* q, std::int64_t n, std::int16_t* out) {
  const __m256i order = _mm256_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15, 0, 2, 1, 3, 4, 6, 5, 7,
                                         8, 10, 9, 11, 12, 14, 13, 15);
  for (std::int64_t i = 0; i < n; i += 32) {
    const __m256i x = _mm256_shuffle_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + i)), order);
    __m256i* to = reinterpret_cast<__m256i*>(out + i);
    _mm256_storeu_si256(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)));
    _mm256_storeu_si256(to + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(x, 1)));
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_tiles(Kernels& kernels) noexcept {
  kernels.widen = widen_levels;
  kernels.shift[static_cast<int>(SlabKind::nibble)] = kernels.shift[static_cast<int>(SlabKind::five)] = shift_blocks;
  kernels.shift[static_cast<int>(SlabKind::group)] = shift_halves;
  kernels.tile[static_cast<int>(SlabKind::nibble)] = tile_scaled;
  kernels.tile[static_cast<int>(SlabKind::nibble_min)] = tile_nibble_min;
  kernels.tile[static_cast<int>(SlabKind::five)] = tile_scaled;
  kernels.tile[static_cast<int>(SlabKind::five_min)] = tile_five_min;
  kernels.tile[static_cast<int>(SlabKind::byte)] = tile_byte;
  kernels.tile[static_cast<int>(SlabKind::group)] = tile_group;
  kernels.tile[static_cast<int>(SlabKind::group_min)] = tile_group_min;
}

}  // namespace llminfer::cpu::avx2
#endif
