// Writing vectors of 8 rows into a slab. Included inside a target region and namespace llminfer::cpu::avx2, after
// levels.h.

static inline void put(std::uint8_t (*levels)[panel_rows][4], int w, int half, __m256i x) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(levels[w]) + half, x);
}

static inline void put16(float* to, const std::byte* halves) {
  _mm256_store_ps(to, load_halves(halves));
  _mm256_store_ps(to + 8, load_halves(halves + 16));
}

static inline void put_pairs(std::int16_t (*to)[2], int half, __m256i x) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to) + half, x);
}

/// Eight rows' bytes of word w, sign-extended: even and odd ones apart.
static inline void put_wide(SlabByte& out, int w, int half, __m256i x) {
  put_pairs(out.levels[0][w], half, _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  put_pairs(out.levels[1][w], half, _mm256_srai_epi16(x, 8));
}
