// FW, sixteen floats on AVX-512: the operations of kernels/wide8.inc and those of F8 that are wanted of both. Every
// lane computes what a lane of F8 does. Included inside a target region and namespace llminfer::cpu::avx512, after
// avx2/vec8.h. Masked forms with all bits set and shuffles: gcc 12 warns of the undefined operand of other forms; the
// code is the same.

typedef __m512 FW;
static const int wide = 16;

static inline FW load_wide(const float* p) { return _mm512_loadu_ps(p); }
static inline FW set_wide(float x) { return _mm512_set1_ps(x); }
static inline F8 splat(float x, F8) { return set1(x); }
static inline FW splat(float x, FW) { return set_wide(x); }
static inline FW load_wide_f16(const std::byte* p) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline FW load_wide_i8(const std::byte* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
}
static inline F8 low_lanes(FW x) { return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7); }
static inline F8 high_lanes(FW x) { return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15); }
static inline F8 add_lanes(F8 total, FW x) { return add(add(total, low_lanes(x)), high_lanes(x)); }

static inline void store(float* p, FW a) { _mm512_storeu_ps(p, a); }
static inline FW add(FW a, FW b) { return _mm512_add_ps(a, b); }
static inline FW sub(FW a, FW b) { return _mm512_sub_ps(a, b); }
static inline FW mul(FW a, FW b) { return _mm512_mul_ps(a, b); }
static inline FW div(FW a, FW b) { return _mm512_div_ps(a, b); }
static inline FW fma(FW a, FW b, FW c) { return _mm512_fmadd_ps(a, b, c); }
static inline FW max(FW a, FW b) { return _mm512_maskz_max_ps(0xffff, a, b); }
static inline FW min(FW a, FW b) { return _mm512_maskz_min_ps(0xffff, a, b); }
static inline __m512i bits_of(FW a) { return _mm512_castps_si512(a); }
static inline FW of_bits(__m512i a) { return _mm512_castsi512_ps(a); }
static inline FW negate(FW a) { return of_bits(_mm512_xor_si512(bits_of(a), _mm512_set1_epi32(-0x7fffffff - 1))); }
static inline FW power_of_magic(FW x) {
  const __m512i n = _mm512_sub_epi32(bits_of(x), _mm512_set1_epi32(0x4b400000 - 127));
  return of_bits(_mm512_maskz_slli_epi32(0xffff, n, 23));
}
static inline FW keep_range(FW a, int base, int first, int last, float other) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i lane = _mm512_add_epi32(count, _mm512_set1_epi32(base));
  const __mmask16 in = _mm512_mask_cmple_epi32_mask(_mm512_cmple_epi32_mask(_mm512_set1_epi32(first), lane), lane,
                                                    _mm512_set1_epi32(last));
  return _mm512_mask_blend_ps(in, set_wide(other), a);
}
static inline float max_lane(FW a) { return max_lane(max(low_lanes(a), high_lanes(a))); }
static inline FW even_of_pairs(FW x) { return of_bits(_mm512_maskz_slli_epi32(0xffff, bits_of(x), 16)); }
static inline FW odd_of_pairs(FW x) {
  return of_bits(_mm512_and_si512(bits_of(x), _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
}
static inline FW first_of_pairs(FW x) { return of_bits(_mm512_and_si512(bits_of(x), _mm512_set1_epi32(0xffff))); }
