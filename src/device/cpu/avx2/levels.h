// Reading levels of packed panels into registers: one line (64 bytes: a word of 16 rows) is two vectors of 8 rows.
// Included inside a target region and namespace llminfer::cpu::avx2, after <immintrin.h>.

static inline __m256i load_line(const std::byte* line, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line) + half);
}
static inline __m256i low_nibbles(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static inline __m256i high_nibbles(__m256i x) { return low_nibbles(_mm256_srli_epi16(x, 4)); }

/// The four fifth bits of word w (0 .. 7) of Q5_0 and Q5_1, as 16 in their bytes. `qh`: 32 bits a row.
static inline __m256i fifth_bits(__m256i qh, int w) {
  const __m256i byte = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0);
  const __m256i mask = _mm256_set1_epi32(w % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010U));
  const __m256i spread = _mm256_shuffle_epi8(qh, _mm256_add_epi8(byte, _mm256_set1_epi8(static_cast<char>(w / 2))));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask), _mm256_set1_epi8(16));
}

/// Bits `shift` on of every byte under `mask`.
static inline __m256i byte_bits(__m256i x, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(x, shift), _mm256_set1_epi8(static_cast<char>(mask)));
}

/// Eight halves as floats.
static inline __m256 load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// Byte `index` of each dword.
static inline __m256i byte_of(__m256i x, int index) {
  return _mm256_and_si256(_mm256_srli_epi32(x, 8 * index), _mm256_set1_epi32(255));
}

/// Six-bit scales (minima) of group g of Q4_K and Q5_K: from words s0 (s1) and s2, see quant/k_quants.h.
static inline __m256i six_bits(__m256i own, __m256i s2, int g, int nibble) {
  if (g < 4) return _mm256_and_si256(byte_of(own, g), _mm256_set1_epi32(63));
  const __m256i low = _mm256_and_si256(_mm256_srli_epi32(s2, 8 * (g - 4) + 4 * nibble), _mm256_set1_epi32(15));
  return _mm256_or_si256(low, _mm256_slli_epi32(_mm256_srli_epi32(byte_of(own, g - 4), 6), 4));
}

/// Scale d * scale and minus minimum dmin * min of group g, eight rows.
static inline __m256 group_scale(__m256 d, __m256i s0, __m256i s2, int g) {
  return _mm256_mul_ps(d, _mm256_cvtepi32_ps(six_bits(s0, s2, g, 0)));
}
static inline __m256 group_minimum(__m256 dmin, __m256i s1, __m256i s2, int g) {
  return _mm256_xor_ps(_mm256_mul_ps(dmin, _mm256_cvtepi32_ps(six_bits(s1, s2, g, 1))), _mm256_set1_ps(-0.0F));
}

/// Levels of word w of group g of Q6_K. `lines`: the block's words.
static inline __m256i levels_q6(const std::byte* lines, int g, int w, int half) {
  const __m256i ql = load_line(lines + 64 * (16 * (g / 4) + 8 * (g % 2) + w), half);
  const __m256i qh = load_line(lines + 64 * (32 + 8 * (g / 4) + w), half);
  const __m256i low = g % 4 < 2 ? low_nibbles(ql) : high_nibbles(ql);
  return _mm256_or_si256(low, _mm256_slli_epi16(byte_bits(qh, 2 * (g % 4), 3), 4));
}

/// Signed scale of 16 weights, twice: byte `index` of a word of scales.
static inline __m256i pair_of_scale(__m256i word, int index) {
  const __m256i wide = _mm256_srai_epi32(_mm256_slli_epi32(word, 24 - 8 * index), 24);
  return _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(wide, 16));
}

/// Level + offset for the 16 codes, twice.
static inline __m256i table_of(const std::int8_t* levels, int offset) {
  alignas(32) std::uint8_t bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(levels[i % 16] + offset);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
}

/// Value and copy in both halves of each dword.
static inline __m256i twice(__m256i x) {
  return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(x, 16));
}

/// Scale of 16 weights of Q3_K: see quant/k_quants.h.
static inline __m256i scale_q3(const std::byte* lines, int half, int k) {
  const __m256i low = _mm256_srli_epi32(load_line(lines + 64 * (k % 8 / 4), half), 8 * (k % 4) + 4 * (k / 8));
  const __m256i high = _mm256_srli_epi32(load_line(lines + 128, half), 8 * (k % 4) + 2 * (k / 4));
  const __m256i code = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                       _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
  return _mm256_sub_epi32(code, _mm256_set1_epi32(32));
}

/// Scale of group g of IQ4_XS, eight rows, times d.
static inline __m256 scale_iq4_xs(const std::byte* lines, const std::byte* small, int g, int half) {
  const __m256i upper =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(small + 32 + 16 * half)));
  const __m256i l = _mm256_and_si256(_mm256_srli_epi32(load_line(lines, half), 4 * g), _mm256_set1_epi32(15));
  const __m256i h = _mm256_and_si256(_mm256_srli_epi32(upper, 2 * g), _mm256_set1_epi32(3));
  const __m256i scale = _mm256_sub_epi32(_mm256_or_si256(l, _mm256_slli_epi32(h, 4)), _mm256_set1_epi32(32));
  return _mm256_mul_ps(load_halves(small + 16 * half), _mm256_cvtepi32_ps(scale));
}

/// 2^(e - 128) of eight bytes e: for 0 and 1 a subnormal.
static inline __m256 half_power(const std::byte* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
