// The operations that kernels/levels.inc and kernels/unpack.inc want, on AVX2: a line (64 bytes, a word of each of the
// 16 rows) is two vectors of 8 rows. Included inside a target region and namespace llminfer::cpu::avx2, after
// <immintrin.h>.

typedef __m256i I;
typedef __m256 F;
inline constexpr int lanes = 8;
inline constexpr int parts = 2;

static inline I load_line(const std::byte* line, int part) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line) + part);
}
static inline void store_line(void* line, int part, I x) { _mm256_store_si256(static_cast<__m256i*>(line) + part, x); }
static inline void store_rows(float* p, F x) { _mm256_store_ps(p, x); }
static inline I load_bytes(const std::byte* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
static inline I load_words(const std::byte* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline F load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline I set8(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
static inline I set32(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
static inline I set_bytes(const std::uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline I shuffle(I bytes, I index) { return _mm256_shuffle_epi8(bytes, index); }
static inline I and_i(I a, I b) { return _mm256_and_si256(a, b); }
static inline I or_i(I a, I b) { return _mm256_or_si256(a, b); }
static inline I shl16(I x, int n) { return _mm256_slli_epi16(x, n); }
static inline I shr16(I x, int n) { return _mm256_srli_epi16(x, n); }
static inline I sar16(I x, int n) { return _mm256_srai_epi16(x, n); }
static inline I shl32(I x, int n) { return _mm256_slli_epi32(x, n); }
static inline I shr32(I x, int n) { return _mm256_srli_epi32(x, n); }
static inline I sar32(I x, int n) { return _mm256_srai_epi32(x, n); }
static inline I shl32_by(I x, I n) { return _mm256_sllv_epi32(x, n); }
static inline I shr32_by(I x, I n) { return _mm256_srlv_epi32(x, n); }
static inline I add8(I a, I b) { return _mm256_add_epi8(a, b); }
static inline I negate16(I x) { return _mm256_sub_epi16(_mm256_setzero_si256(), x); }
static inline I sub32(I a, I b) { return _mm256_sub_epi32(a, b); }
static inline I add_16_where(I low, I bits, I mask) {
  return or_i(low, and_i(_mm256_cmpeq_epi8(and_i(bits, mask), mask), set8(16)));
}
static inline I greater32(I a, I b) { return _mm256_cmpgt_epi32(a, b); }
static inline I select(I mask, I a, I b) { return _mm256_blendv_epi8(b, a, mask); }
static inline I low_high(I low, I high) { return _mm256_blend_epi16(low, high, 0xaa); }
static inline F to_f(I x) { return _mm256_cvtepi32_ps(x); }
static inline F as_f(I x) { return _mm256_castsi256_ps(x); }
static inline F times(F a, F b) { return _mm256_mul_ps(a, b); }
static inline F minus(F x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0F)); }
/// Low and high halves of eight dwords, as floats.
static inline void split_halves(I x, F& low, F& high) {
  const I apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3,
                                   6, 7, 10, 11, 14, 15);
  // Of four rows each: low halves, then high ones; then those of all eight rows beside each other.
  const I all = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, apart), 0xd8);
  low = _mm256_cvtph_ps(_mm256_castsi256_si128(all));
  high = _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1));
}
#include "device/cpu/kernels/levels.inc"
