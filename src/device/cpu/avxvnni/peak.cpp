// Roof of AVX-VNNI: vpdpbusd from registers.
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVXVNNI_BEGIN
namespace llminfer::cpu::avxvnni {
namespace {

inline __attribute__((always_inline)) __m256i dot_step(__m256i x, __m256i levels, __m256i& q) {
  __asm__("" : "+x"(q));  // else equal products are computed once
  x = _mm256_dpbusd_avx_epi32(x, levels, q);
  __asm__("" : "+x"(x));
  return x;
}
inline __m256i add_sums(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
#include "device/cpu/kernels/dot_peak.inc"

std::int32_t products(std::int64_t rounds) {
  const __m256i x = run_dot_chains(rounds, _mm256_set1_epi32(1), _mm256_set1_epi8(3), _mm256_set1_epi8(5));
  return _mm_cvtsi128_si32(_mm256_castsi256_si128(x));
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.int8 = products;
  loops.int8_ops = 2 * 32 * dot_chains;
}

}  // namespace llminfer::cpu::avxvnni
LLMINFER_TARGET_END
#endif
