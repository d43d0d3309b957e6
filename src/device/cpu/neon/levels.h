// The operations that kernels/levels.inc and kernels/unpack.inc want, on NEON: a line is four vectors of 4 rows.
// Included inside namespace llminfer::cpu::neon, after <arm_neon.h>.

typedef uint8x16_t I;
typedef float32x4_t F;
inline constexpr int lanes = 4;
inline constexpr int parts = 4;

static inline const std::uint8_t* bytes_at(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }
static inline I of16(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
static inline I of32(uint32x4_t x) { return vreinterpretq_u8_u32(x); }
static inline uint16x8_t to16(I x) { return vreinterpretq_u16_u8(x); }
static inline uint32x4_t to32(I x) { return vreinterpretq_u32_u8(x); }

static inline I load_line(const std::byte* line, int part) { return vld1q_u8(bytes_at(line) + 16 * part); }
static inline void store_line(void* line, int part, I x) { vst1q_u8(static_cast<std::uint8_t*>(line) + 16 * part, x); }
static inline void store_rows(float* p, F x) { vst1q_f32(p, x); }
static inline I load_bytes(const std::byte* p) {
  std::uint32_t word;
  __builtin_memcpy(&word, p, 4);
  return of32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word))))));
}
static inline uint16x4_t load_4x16(const std::byte* p) { return vreinterpret_u16_u8(vld1_u8(bytes_at(p))); }
static inline I load_words(const std::byte* p) { return of32(vmovl_u16(load_4x16(p))); }
static inline F load_halves(const std::byte* p) { return vcvt_f32_f16(vreinterpret_f16_u16(load_4x16(p))); }
static inline I set8(int x) { return vdupq_n_u8(static_cast<std::uint8_t>(x)); }
static inline I set32(std::uint32_t x) { return of32(vdupq_n_u32(x)); }
static inline I set_bytes(const std::uint8_t* p) { return vld1q_u8(p); }
static inline I shuffle(I bytes, I index) { return vqtbl1q_u8(bytes, index); }
static inline I and_i(I a, I b) { return vandq_u8(a, b); }
static inline I or_i(I a, I b) { return vorrq_u8(a, b); }
static inline I shl16(I x, int n) { return of16(vshlq_u16(to16(x), vdupq_n_s16(static_cast<std::int16_t>(n)))); }
static inline I shr16(I x, int n) { return shl16(x, -n); }
static inline I sar16(I x, int n) {
  const int16x8_t left = vdupq_n_s16(static_cast<std::int16_t>(-n));
  return vreinterpretq_u8_s16(vshlq_s16(vreinterpretq_s16_u8(x), left));
}
static inline I shl32(I x, int n) { return of32(vshlq_u32(to32(x), vdupq_n_s32(n))); }
static inline I shr32(I x, int n) { return shl32(x, -n); }
static inline I sar32(I x, int n) { return vreinterpretq_u8_s32(vshlq_s32(vreinterpretq_s32_u8(x), vdupq_n_s32(-n))); }
static inline I shl32_by(I x, I n) { return of32(vshlq_u32(to32(x), vreinterpretq_s32_u8(n))); }
static inline I shr32_by(I x, I n) { return of32(vshlq_u32(to32(x), vnegq_s32(vreinterpretq_s32_u8(n)))); }
static inline I add8(I a, I b) { return vaddq_u8(a, b); }
static inline I negate16(I x) { return vreinterpretq_u8_s16(vnegq_s16(vreinterpretq_s16_u8(x))); }
static inline I sub32(I a, I b) { return of32(vsubq_u32(to32(a), to32(b))); }
static inline I add_16_where(I low, I bits, I mask) { return or_i(low, and_i(vtstq_u8(bits, mask), set8(16))); }
static inline I greater32(I a, I b) { return of32(vcgtq_s32(vreinterpretq_s32_u8(a), vreinterpretq_s32_u8(b))); }
static inline I select(I mask, I a, I b) { return vbslq_u8(mask, a, b); }
static inline I low_high(I low, I high) { return select(set32(0xffff), low, high); }
static inline F to_f(I x) { return vcvtq_f32_s32(vreinterpretq_s32_u8(x)); }
static inline F as_f(I x) { return vreinterpretq_f32_u8(x); }
static inline F times(F a, F b) { return vmulq_f32(a, b); }
static inline F minus(F x) { return vnegq_f32(x); }
/// Low and high halves of four dwords, as floats.
static inline void split_halves(I x, F& low, F& high) {
  const uint32x4_t dwords = to32(x);
  low = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(dwords)));
  high = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(dwords, 16)));
}
#include "device/cpu/kernels/levels.inc"
