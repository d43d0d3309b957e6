// Eight floats at a time on NEON, two vectors of four: the operations of portable/vec8.h, which says what they mean.
// Included inside namespace llminfer::cpu::neon, after <arm_neon.h>.

struct F8 {
  float32x4_t a, b;
};

static inline F8 load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
static inline void store(float* p, F8 x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
}
static inline F8 set1(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
static inline F8 zero() { return set1(0.0F); }
static inline F8 add(F8 x, F8 y) { return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)}; }
static inline F8 sub(F8 x, F8 y) { return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b)}; }
static inline F8 mul(F8 x, F8 y) { return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
static inline F8 div(F8 x, F8 y) { return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b)}; }
static inline F8 fma(F8 x, F8 y, F8 z) { return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)}; }
// By comparison: fmax and fmin of this processor treat NaN and zeros otherwise.
static inline float32x4_t max_4(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
static inline float32x4_t min_4(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
static inline F8 max(F8 x, F8 y) { return {max_4(x.a, y.a), max_4(x.b, y.b)}; }
static inline F8 min(F8 x, F8 y) { return {min_4(x.a, y.a), min_4(x.b, y.b)}; }
static inline F8 abs(F8 x) { return {vabsq_f32(x.a), vabsq_f32(x.b)}; }
static inline F8 negate(F8 x) { return {vnegq_f32(x.a), vnegq_f32(x.b)}; }
static inline float32x4_t power_of_magic_4(float32x4_t x) {
  const int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0x4b400000 - 127));
  return vreinterpretq_f32_s32(vshlq_n_s32(n, 23));
}
static inline F8 power_of_magic(F8 x) { return {power_of_magic_4(x.a), power_of_magic_4(x.b)}; }
static inline float32x4_t keep_4(float32x4_t x, int base, int first, int last, float other) {
  static const std::int32_t count[4] = {0, 1, 2, 3};
  const int32x4_t lane = vaddq_s32(vld1q_s32(count), vdupq_n_s32(base));
  const uint32x4_t in = vandq_u32(vcgeq_s32(lane, vdupq_n_s32(first)), vcleq_s32(lane, vdupq_n_s32(last)));
  return vbslq_f32(in, x, vdupq_n_f32(other));
}
static inline F8 keep_range(F8 x, int base, int first, int last, float other) {
  return {keep_4(x.a, base, first, last, other), keep_4(x.b, base + 4, first, last, other)};
}
static inline float sum(F8 x) {
  const float32x4_t s = vaddq_f32(x.a, x.b);
  const float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));
  return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
static inline void sum_4(F8 a, F8 b, F8 c, F8 d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
static inline float max_lane(F8 x) {
  float s[4];
  vst1q_f32(s, max_4(x.a, x.b));
  const float t0 = s[0] > s[2] ? s[0] : s[2], t1 = s[1] > s[3] ? s[1] : s[3];
  return t0 > t1 ? t0 : t1;
}
static inline uint16x8_t load_8x16(const std::byte* p) {
  return vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)));
}
static inline F8 load_f16(const std::byte* p) {
  const float16x8_t x = vreinterpretq_f16_u16(load_8x16(p));
  return {vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}
static inline float32x4_t even_4(float32x4_t x) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 16));
}
static inline float32x4_t under_4(float32x4_t x, std::uint32_t mask) {
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(mask)));
}
static inline F8 even_of_pairs(F8 x) { return {even_4(x.a), even_4(x.b)}; }
static inline F8 odd_of_pairs(F8 x) { return {under_4(x.a, 0xffff0000U), under_4(x.b, 0xffff0000U)}; }
static inline F8 first_of_pairs(F8 x) { return {under_4(x.a, 0xffffU), under_4(x.b, 0xffffU)}; }
static inline F8 float_of_words(int16x8_t x) {
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(x))), vcvtq_f32_s32(vmovl_high_s16(x))};
}
static inline F8 load_i8(const std::byte* p) {
  return float_of_words(vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(p))));
}
static inline F8 load_low_nibble(const std::byte* p) {
  const uint8x8_t x = vand_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(p)), vdup_n_u8(15));
  return float_of_words(vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(x)), vdupq_n_s16(8)));
}
static inline F8 load_high_nibble(const std::byte* p) {
  const uint8x8_t x = vshr_n_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(p)), 4);
  return float_of_words(vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(x)), vdupq_n_s16(8)));
}
/// The lowest byte of each lane.
static inline int8x8_t magic_bytes(F8 x) {
  const int16x4_t a = vmovn_s32(vreinterpretq_s32_f32(x.a)), b = vmovn_s32(vreinterpretq_s32_f32(x.b));
  return vmovn_s16(vcombine_s16(a, b));
}
static inline void store_magic(std::int8_t* out, std::int16_t* half, F8 a, F8 b, F8 c, F8 d) {
  const int8x16_t low = vcombine_s8(magic_bytes(a), magic_bytes(b)), high = vcombine_s8(magic_bytes(c), magic_bytes(d));
  vst1q_s8(out, low);
  vst1q_s8(out + 16, high);
  half[0] = vaddlvq_s8(low);
  half[1] = vaddlvq_s8(high);
}
static inline void store_f16(std::byte* p, F8 x) {
  const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b);
  vst1q_u8(reinterpret_cast<std::uint8_t*>(p), vreinterpretq_u8_f16(halves));
}
static inline std::uint16_t to_half(float x) {
  return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0);
}
static inline std::uint16_t to_bf16(float x) { return core::f32_to_bf16(x); }
static inline float from_half(std::uint16_t bits) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}
static inline float square_root(float x) { return __builtin_sqrtf(x); }
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
