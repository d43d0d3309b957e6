// Roofs of AVX-512: vfmadd, vpdpbusd (VNNI) and vdpbf16ps (BF16) from registers.
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BF16_BEGIN
namespace llminfer::cpu::avx512 {
namespace {

inline __attribute__((always_inline)) __m512i dot_step(__m512i x, __m512i levels, __m512i& q) {
  __asm__("" : "+v"(q));  // else equal products are computed once
  x = _mm512_dpbusd_epi32(x, levels, q);
  __asm__("" : "+v"(x));
  return x;
}
/// vfmadd: both operands are floats.
inline __attribute__((always_inline)) __m512 dot_step(__m512 x, __m512 factor, __m512& one) {
  __asm__("" : "+v"(one));
  x = _mm512_fmadd_ps(x, factor, one);
  __asm__("" : "+v"(x));
  return x;
}
inline __m512i add_sums(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }

inline __attribute__((always_inline)) __m512 dot_step(__m512 x, __m512i pairs, __m512i& with) {
  __asm__("" : "+v"(with));
  x = _mm512_dpbf16_ps(x, reinterpret_cast<__m512bh>(pairs), reinterpret_cast<__m512bh>(with));
  __asm__("" : "+v"(x));
  return x;
}
inline __m512 add_sums(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
#include "device/cpu/kernels/dot_peak.inc"

/// The first lane, through memory: gcc 12 takes the cast to 128 bits for a read of something uninitialized.
std::int32_t byte_products(std::int64_t rounds) {
  const __m512i x = run_dot_chains(rounds, _mm512_set1_epi32(1), _mm512_set1_epi8(3), _mm512_set1_epi8(5));
  std::int32_t out = 0;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}

float first_of(const __m512& x) {
  float out = 0;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}

float float_products(std::int64_t rounds) {
  return first_of(run_dot_chains(rounds, _mm512_set1_ps(1.0F), _mm512_set1_ps(0.999F), _mm512_set1_ps(1.0F)));
}

float bf16_products(std::int64_t rounds) {
  const __m512i small = _mm512_set1_epi32(0x3a803a80);  // 2^-10, twice
  return first_of(run_dot_chains(rounds, _mm512_set1_ps(1.0F), small, small));
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.f32 = float_products;
  loops.f32_ops = 2 * 16 * dot_chains;
  loops.int8 = byte_products;
  loops.int8_ops = 2 * 64 * dot_chains;
}

void add_bf16_peak_loop(PeakLoops& loops) noexcept {
  loops.bf16 = bf16_products;
  loops.bf16_ops = 2 * 32 * dot_chains;
}

}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END
#endif
