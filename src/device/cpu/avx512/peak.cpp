// Roof of AVX-512 VNNI: vpdpbusd from registers, ten chains.
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {

constexpr int chains = 10;

static inline __attribute__((always_inline)) __m512i product_step(__m512i x, __m512i levels, __m512i& q) {
  __asm__("" : "+v"(q));  // else equal products are computed once
  x = _mm512_dpbusd_epi32(x, levels, q);
  __asm__("" : "+v"(x));
  return x;
}

/// Through memory: gcc 12 takes the cast to 128 bits for a read of something uninitialized.
static inline std::int32_t first(__m512i x) {
  std::int32_t out = 0;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}

static std::int32_t products(std::int64_t rounds) {
  const __m512i w = _mm512_set1_epi8(3);
  __m512i q = _mm512_set1_epi8(5), a = q, b = w, c = q, d = w, e = q, g = w, h = q, i = w, j = q, k = w;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = product_step(a, w, q), b = product_step(b, w, q), c = product_step(c, w, q), d = product_step(d, w, q);
    e = product_step(e, w, q), g = product_step(g, w, q), h = product_step(h, w, q), i = product_step(i, w, q);
    j = product_step(j, w, q), k = product_step(k, w, q);
  }
  const __m512i left = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(_mm512_add_epi32(c, d), e));
  const __m512i right = _mm512_add_epi32(_mm512_add_epi32(g, h), _mm512_add_epi32(_mm512_add_epi32(i, j), k));
  return first(_mm512_add_epi32(left, right));
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.int8 = products;
  loops.int8_ops = 2 * 64 * chains;
}

}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END
#endif
