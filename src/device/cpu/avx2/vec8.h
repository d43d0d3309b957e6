// Eight floats at a time on AVX2: the operations of portable/vec8.h, which says what they mean. Included inside a
// target region and inside namespace llminfer::cpu::avx2, after <immintrin.h>.

typedef __m256 F8;

static inline F8 load(const float* p) { return _mm256_loadu_ps(p); }
static inline void store(float* p, F8 a) { _mm256_storeu_ps(p, a); }
static inline F8 set1(float x) { return _mm256_set1_ps(x); }
static inline F8 zero() { return _mm256_setzero_ps(); }
static inline F8 add(F8 a, F8 b) { return _mm256_add_ps(a, b); }
static inline F8 sub(F8 a, F8 b) { return _mm256_sub_ps(a, b); }
static inline F8 mul(F8 a, F8 b) { return _mm256_mul_ps(a, b); }
static inline F8 div(F8 a, F8 b) { return _mm256_div_ps(a, b); }
static inline F8 fma(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
static inline F8 max(F8 a, F8 b) { return _mm256_max_ps(a, b); }
static inline F8 min(F8 a, F8 b) { return _mm256_min_ps(a, b); }
static inline F8 abs(F8 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
static inline F8 negate(F8 a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0F), a); }
static inline F8 power_of_magic(F8 x) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x4b400000 - 127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}
static inline F8 keep_range(F8 a, int base, int first, int last, float other) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(base));
  const __m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                                      _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(last)));
  return _mm256_blendv_ps(a, _mm256_set1_ps(other), _mm256_castsi256_ps(out));
}
static inline float sum(F8 a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline __m128 half_sum(F8 a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
static inline void sum_4(F8 a, F8 b, F8 c, F8 d, float* out) {
  const __m128 s = half_sum(a), t = half_sum(b), u = half_sum(c), v = half_sum(d);
  const __m128 st = _mm_add_ps(_mm_unpacklo_ps(s, t), _mm_unpackhi_ps(s, t));  // 0+2 of both, then 1+3
  const __m128 uv = _mm_add_ps(_mm_unpacklo_ps(u, v), _mm_unpackhi_ps(u, v));
  _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(st, uv), _mm_movehl_ps(uv, st)));
}
static inline float max_lane(F8 a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline F8 load_f16(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline F8 even_of_pairs(F8 x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16)); }
static inline F8 odd_of_pairs(F8 x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000U))));
}
static inline F8 first_of_pairs(F8 x) { return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0xffff))); }
static inline F8 load_i8(const std::byte* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
static inline F8 load_low_nibble(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(15)), _mm256_set1_epi32(8)));
}
static inline F8 load_high_nibble(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(wide, 4), _mm256_set1_epi32(8)));
}
static inline void store_magic(std::int8_t* out, std::int16_t* half, F8 a, F8 b, F8 c, F8 d) {
  const __m256i magic = _mm256_set1_epi32(0x4b400000);
  const __m256i ab = _mm256_packs_epi32(_mm256_sub_epi32(_mm256_castps_si256(a), magic),
                                        _mm256_sub_epi32(_mm256_castps_si256(b), magic));
  const __m256i cd = _mm256_packs_epi32(_mm256_sub_epi32(_mm256_castps_si256(c), magic),
                                        _mm256_sub_epi32(_mm256_castps_si256(d), magic));
  // Packing works within 128-bit lanes: put the eight dwords back in order.
  const __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), q);
  __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
  s = _mm256_hadd_epi32(s, s);
  s = _mm256_hadd_epi32(s, s);
  half[0] = static_cast<std::int16_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(s)));
  half[1] = static_cast<std::int16_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)));
}
static inline void store_f16(std::byte* p, F8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline std::uint16_t to_half(float x) {
  return static_cast<std::uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}
static inline std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
static inline float from_half(std::uint16_t bits) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits))); }
static inline float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
static inline float fma1(float a, float b, float c) {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}
