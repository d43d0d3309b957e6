// One panel times 1 .. 4 columns with levels unpacked in registers: for formats where unpacking costs so little that
// doing it again for every four columns beats writing a slab and reading it back.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/levels.h"
#include "device/cpu/avx2/sums.h"

/// Bytes as int16, even and odd ones apart, against widened activations.
LLMINFER_INLINE void few_bytes(const FewArgs& t, int count, int lines) {
  const std::byte* small = t.panel + t.shape->small_plane;
  const QuantColumn* columns = t.columns;
  Results r;
  begin(r, columns, count, false);
  const std::byte* ahead = t.ahead.at;
  AheadPlaces places = t.places.of(t.ahead);
  for (std::int64_t b = 0; b < t.shape->blocks; ++b) {
#pragma GCC unroll 9
    for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(ahead + 64 * i), _MM_HINT_T1);
    ahead += places.next();
    __m256i s0[4], s1[4];
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      const __m256i x0 = load_line(t.panel + 512 * b + 64 * w, 0), x1 = load_line(t.panel + 512 * b + 64 * w, 1);
      const __m256i a0 = _mm256_srai_epi16(_mm256_slli_epi16(x0, 8), 8), b0 = _mm256_srai_epi16(x0, 8);
      const __m256i a1 = _mm256_srai_epi16(_mm256_slli_epi16(x1, 8), 8), b1 = _mm256_srai_epi16(x1, 8);
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
    const __m256 d0 = load_halves(small + 32 * b), d1 = load_halves(small + 32 * b + 16);
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      const __m256 dx = _mm256_set1_ps(columns[c].d[b]);
      scale_add(r.y[c], s0[c], d0, dx);
      scale_add(r.y[c] + 8, s1[c], d1, dx);
    }
  }
  write(r, columns, count);
}

/// Nine lines a block, asked for by one call alone or by two and more that share them.
static void few_q8_0(const FewArgs& t) {
  if (t.alone) {
    switch (t.count) {
      case 1:
        return few_bytes(t, 1, 9);
      case 2:
        return few_bytes(t, 2, 9);
      case 3:
        return few_bytes(t, 3, 9);
      default:
        return few_bytes(t, 4, 9);
    }
  }
  switch (t.count) {
    case 1:
      return few_bytes(t, 1, 3);
    case 2:
      return few_bytes(t, 2, 3);
    case 3:
      return few_bytes(t, 3, 3);
    default:
      return few_bytes(t, 4, 5);
  }
}

}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_few(Kernels& kernels) noexcept {
  kernels.few[static_cast<int>(WeightType::q8_0)] = few_q8_0;
  kernels.most_few[static_cast<int>(WeightType::q8_0)] = 12;
  kernels.few_wide = true;
}

}  // namespace llminfer::cpu::avx2
#endif
