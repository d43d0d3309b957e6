// The operations that kernels/levels.inc and kernels/unpack.inc want, on AVX-512: a line (64 bytes, a word of each of
// the 16 rows) is one vector. Included inside a target region and namespace llminfer::cpu::avx512, after <immintrin.h>.
// Masked forms with all bits set: gcc 12 warns of the undefined operand in the others; the code is the same.

typedef __m512i I;
typedef __m512 F;
inline constexpr int lanes = 16;
inline constexpr int parts = 1;
inline constexpr __mmask16 all = 0xffff;

static inline I load_line(const std::byte* line, int) { return _mm512_loadu_si512(line); }
static inline void store_line(void* line, int, I x) { _mm512_store_si512(line, x); }
static inline void store_rows(float* p, F x) { _mm512_store_ps(p, x); }
static inline I load_bytes(const std::byte* p) {
  return _mm512_maskz_cvtepu8_epi32(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline I load_words(const std::byte* p) {
  return _mm512_maskz_cvtepu16_epi32(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline F load_halves(const std::byte* p) {
  return _mm512_maskz_cvtph_ps(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline I set8(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
static inline I set32(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
static inline I set_bytes(const std::uint8_t* p) {
  return _mm512_maskz_broadcast_i32x4(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline I shuffle(I bytes, I index) { return _mm512_shuffle_epi8(bytes, index); }
static inline I and_i(I a, I b) { return _mm512_and_si512(a, b); }
static inline I or_i(I a, I b) { return _mm512_or_si512(a, b); }
static inline I shl16(I x, int n) { return _mm512_slli_epi16(x, static_cast<unsigned>(n)); }
static inline I shr16(I x, int n) { return _mm512_srli_epi16(x, static_cast<unsigned>(n)); }
static inline I sar16(I x, int n) { return _mm512_srai_epi16(x, static_cast<unsigned>(n)); }
static inline I shl32(I x, int n) { return _mm512_maskz_slli_epi32(all, x, static_cast<unsigned>(n)); }
static inline I shr32(I x, int n) { return _mm512_maskz_srli_epi32(all, x, static_cast<unsigned>(n)); }
static inline I sar32(I x, int n) { return _mm512_maskz_srai_epi32(all, x, static_cast<unsigned>(n)); }
static inline I shl32_by(I x, I n) { return _mm512_maskz_sllv_epi32(all, x, n); }
static inline I shr32_by(I x, I n) { return _mm512_maskz_srlv_epi32(all, x, n); }
static inline I add8(I a, I b) { return _mm512_add_epi8(a, b); }
static inline I negate16(I x) { return _mm512_sub_epi16(_mm512_setzero_si512(), x); }
static inline I sub32(I a, I b) { return _mm512_sub_epi32(a, b); }
static inline I add_16_where(I low, I bits, I mask) {
  return _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(bits, mask), low, set8(16));
}
static inline I greater32(I a, I b) { return _mm512_maskz_set1_epi32(_mm512_cmpgt_epi32_mask(a, b), -1); }
static inline I select(I mask, I a, I b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
static inline I low_high(I low, I high) { return _mm512_mask_blend_epi16(0xaaaaaaaaU, low, high); }
static inline F to_f(I x) { return _mm512_maskz_cvtepi32_ps(all, x); }
static inline F as_f(I x) { return _mm512_castsi512_ps(x); }
static inline F times(F a, F b) { return _mm512_mul_ps(a, b); }
static inline F minus(F x) { return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), set32(0x80000000U))); }
/// Low and high halves of the dwords, as floats.
static inline void split_halves(I x, F& low, F& high) {
  low = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, x));
  high = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, shr32(x, 16)));
}
#include "device/cpu/kernels/levels.inc"
