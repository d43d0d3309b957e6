// The operations that kernels/dot.inc wants, on NEON, but for the dot products themselves: the 16 rows of a panel are
// four vectors. Included inside namespace llminfer::cpu::neon, after <arm_neon.h>.

#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/prefetch.inc"

typedef int32x4_t I;
typedef float32x4_t F;
constexpr int parts = 4;
constexpr int signed_offset = 0;  // products of signed bytes; unsigned levels are at most 127

LLMINFER_INLINE I load_i(const void* p, int part) {
  return vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p) + 16 * part));
}
LLMINFER_INLINE F load_f(const float* p, int part) { return vld1q_f32(p + 4 * part); }
LLMINFER_INLINE F load_halves(const std::byte* p, int part) {
  const uint8x8_t bytes = vld1_u8(reinterpret_cast<const std::uint8_t*>(p) + 8 * part);
  return vcvt_f32_f16(vreinterpret_f16_u8(bytes));
}
LLMINFER_INLINE void store_f(float* p, int part, F a) { vst1q_f32(p + 4 * part, a); }
LLMINFER_INLINE I set_i(int x) { return vdupq_n_s32(x); }
LLMINFER_INLINE F set_f(float x) { return vdupq_n_f32(x); }
LLMINFER_INLINE I dot_16(I sum, I a, I b) {
  const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
  return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
LLMINFER_INLINE I add_i(I a, I b) { return vaddq_s32(a, b); }
LLMINFER_INLINE I mul_i(I a, I b) { return vmulq_s32(a, b); }
LLMINFER_INLINE I low_half(I a) { return vshrq_n_s32(vshlq_n_s32(a, 16), 16); }
LLMINFER_INLINE F to_f(I a) { return vcvtq_f32_s32(a); }
LLMINFER_INLINE F mul(F a, F b) { return vmulq_f32(a, b); }
LLMINFER_INLINE F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
