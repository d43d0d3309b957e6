// Roofs of NEON: fused multiply-add and SDOT, from registers, twelve chains (four pipes of three or four cycles).
#include "device/cpu/peak.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_NEON
#include <arm_neon.h>

namespace llminfer::cpu::neon {
namespace {

constexpr int chains = 12;

inline __attribute__((always_inline)) float32x4_t fma_step(float32x4_t x, float32x4_t factor, float32x4_t one) {
  x = vfmaq_f32(one, x, factor);
  __asm__("" : "+w"(x));
  return x;
}

float multiply_add(std::int64_t rounds) {
  const float32x4_t f = vdupq_n_f32(0.999F), one = vdupq_n_f32(1.0F);
  float32x4_t a = one, b = f, c = a, d = b, e = a, g = b, h = a, i = b, j = a, k = b, l = a, m = b;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = fma_step(a, f, one), b = fma_step(b, f, one), c = fma_step(c, f, one), d = fma_step(d, f, one);
    e = fma_step(e, f, one), g = fma_step(g, f, one), h = fma_step(h, f, one), i = fma_step(i, f, one);
    j = fma_step(j, f, one), k = fma_step(k, f, one), l = fma_step(l, f, one), m = fma_step(m, f, one);
  }
  const float32x4_t x = vaddq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d)), vaddq_f32(e, g));
  const float32x4_t y = vaddq_f32(vaddq_f32(vaddq_f32(h, i), vaddq_f32(j, k)), vaddq_f32(l, m));
  return vaddvq_f32(vaddq_f32(x, y));
}

}  // namespace

void add_peak_loops(PeakLoops& loops) noexcept {
  loops.f32 = multiply_add;
  loops.f32_ops = 2 * 4 * chains;
}

}  // namespace llminfer::cpu::neon

#if LLMINFER_CPU_NEON_DOT
LLMINFER_DOTPROD_BEGIN
namespace llminfer::cpu::neon {
namespace {

inline __attribute__((always_inline)) int32x4_t dot_step(int32x4_t x, int8x16_t levels, int8x16_t& q) {
  __asm__("" : "+w"(q));  // else equal products are computed once
  x = vdotq_s32(x, levels, q);
  __asm__("" : "+w"(x));
  return x;
}

inline int32x4_t add_sums(int32x4_t a, int32x4_t b) { return vaddq_s32(a, b); }
#include "device/cpu/kernels/dot_peak.inc"

std::int32_t products(std::int64_t rounds) {
  return vaddvq_s32(run_dot_chains(rounds, vdupq_n_s32(1), vdupq_n_s8(3), vdupq_n_s8(5)));
}

}  // namespace

void add_dot_peak_loops(PeakLoops& loops) noexcept {
  loops.int8 = products;
  loops.int8_ops = 2 * 16 * dot_chains;
}

}  // namespace llminfer::cpu::neon
LLMINFER_NEON_END
#else
namespace llminfer::cpu::neon {
void add_dot_peak_loops(PeakLoops&) noexcept {}
}  // namespace llminfer::cpu::neon
#endif
#endif
