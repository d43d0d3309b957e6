// Roofs of AVX2: 32-byte loads, vfmadd, and vpmaddubsw with the 16-bit addition that goes with it in the tiles.
//
// Zen 3 starts two multiplies a cycle and has four cycles of latency, so eight chains would do; ten leave slack. An
// empty asm keeps the compiler from folding the chains.
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {

constexpr int chains = 10;

static std::uint64_t read(const std::byte* data, std::size_t bytes) {
  const auto* at = reinterpret_cast<const __m256i*>(data);
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
  const std::size_t quarter = bytes / 128;  // four streams, each a quarter: one leaves the memory channels waiting
  for (std::size_t i = 0; i < quarter; i += 2) {
    s0 = _mm256_xor_si256(_mm256_xor_si256(s0, _mm256_load_si256(at + i)), _mm256_load_si256(at + i + 1));
    s1 = _mm256_xor_si256(_mm256_xor_si256(s1, _mm256_load_si256(at + quarter + i)),
                          _mm256_load_si256(at + quarter + i + 1));
    s2 = _mm256_xor_si256(_mm256_xor_si256(s2, _mm256_load_si256(at + 2 * quarter + i)),
                          _mm256_load_si256(at + 2 * quarter + i + 1));
    s3 = _mm256_xor_si256(_mm256_xor_si256(s3, _mm256_load_si256(at + 3 * quarter + i)),
                          _mm256_load_si256(at + 3 * quarter + i + 1));
  }
  const __m256i s = _mm256_xor_si256(_mm256_xor_si256(s0, s1), _mm256_xor_si256(s2, s3));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(s, 0) ^ _mm256_extract_epi64(s, 1) ^
                                    _mm256_extract_epi64(s, 2) ^ _mm256_extract_epi64(s, 3));
}

static inline __attribute__((always_inline)) __m256 fma_step(__m256 x, __m256 factor, __m256 one) {
  x = _mm256_fmadd_ps(x, factor, one);
  __asm__("" : "+x"(x));
  return x;
}

// Variables and no array: gcc keeps an array whose elements pass through asm in memory.
static float multiply_add(std::int64_t rounds) {
  const __m256 f = _mm256_set1_ps(0.999F), one = _mm256_set1_ps(1.0F);
  __m256 a = one, b = f, c = a, d = b, e = a, g = b, h = a, i = b, j = a, k = b;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = fma_step(a, f, one), b = fma_step(b, f, one), c = fma_step(c, f, one), d = fma_step(d, f, one);
    e = fma_step(e, f, one), g = fma_step(g, f, one), h = fma_step(h, f, one), i = fma_step(i, f, one);
    j = fma_step(j, f, one), k = fma_step(k, f, one);
  }
  const __m256 left = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(_mm256_add_ps(c, d), e));
  const __m256 right = _mm256_add_ps(_mm256_add_ps(g, h), _mm256_add_ps(_mm256_add_ps(i, j), k));
  return _mm256_cvtss_f32(_mm256_add_ps(left, right));
}

static inline __attribute__((always_inline)) __m256i dot_step(__m256i x, __m256i levels, __m256i& q) {
  __asm__("" : "+x"(q));  // else equal products are computed once
  __m256i p = _mm256_maddubs_epi16(levels, q);
  __asm__("" : "+x"(p));
  x = _mm256_add_epi16(x, p);
  __asm__("" : "+x"(x));
  return x;
}
static inline __m256i add_sums(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
#include "device/cpu/kernels/dot_peak.inc"

static std::int32_t products(std::int64_t rounds) {
  return _mm256_extract_epi32(run_dot_chains(rounds, _mm256_set1_epi16(1), _mm256_set1_epi8(3), _mm256_set1_epi8(5)),
                              0);
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.read = read;
  loops.f32 = multiply_add;
  loops.f32_ops = 2 * 8 * chains;
  loops.int8 = products;
  loops.int8_ops = 2 * 32 * dot_chains;
}

}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END
#endif
