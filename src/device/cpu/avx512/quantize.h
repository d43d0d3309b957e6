// kernels/quantize.inc on AVX-512, which says what the numbers mean: two blocks of 32 to a vector, the first one's in
// lanes 0 .. 7, and eight blocks to a round, whose scales are found in one vector. Every lane does what the lanes there
// do, in the same order, hence equal bits. Included inside a target region and namespace llminfer::cpu::avx512, after
// avx2/vec8.h, vec16.h and kernels/math.inc.

/// 32 values of two blocks: v[j] holds values 8 j .. 8 j + 7 of each.
struct BlockPair {
  FW v[4];
};

static inline BlockPair load_pair(const float* first, const float* second) {
  const FW a = load_wide(first), b = load_wide(first + 16), c = load_wide(second), d = load_wide(second + 16);
  return {{__builtin_shufflevector(a, c, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           __builtin_shufflevector(a, c, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
           __builtin_shufflevector(b, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           __builtin_shufflevector(b, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)}};
}

static inline FW abs(FW a) { return of_bits(_mm512_and_si512(bits_of(a), _mm512_set1_epi32(0x7fffffff))); }
/// The other four lanes of each eight; lanes two apart; lanes one apart.
static inline FW swap_4(FW a) {
  return __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
}
static inline FW swap_2(FW a) {
  return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}
static inline FW swap_1(FW a) {
  return __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
}

/// Lanes p and 8 + p, those of pair p in a vector of a round; and from there to all lanes of the pair.
static inline __mmask16 lanes_of(int pair) { return static_cast<__mmask16>(0x0101 << pair); }
static inline FW keep_pair(FW list, FW a, int pair) { return _mm512_mask_mov_ps(list, lanes_of(pair), a); }
static inline FW of_pair(FW list, int pair) {
  const __m512i index =
      _mm512_add_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8), _mm512_set1_epi32(pair));
  return _mm512_maskz_permutexvar_ps(0xffff, index, list);
}

static inline FW top_of(const BlockPair& x) {
  const FW a = max(max(abs(x.v[0]), abs(x.v[1])), max(abs(x.v[2]), abs(x.v[3])));
  const FW b = max(a, swap_4(a)), c = max(b, swap_2(b));
  return max(c, swap_1(c));
}

static inline FW wide_dot(const FW (&a)[4], const FW (&b)[4]) {
  return fma(a[0], b[0], fma(a[1], b[1], fma(a[2], b[2], mul(a[3], b[3]))));
}

/// What eight blocks have in common, a lane for each.
struct RoundFit {
  FW tops;
  FW inverse;
  FW sums[4];
  FW d;
  FW scale;
};

/// The four sums of a pair, each in its lanes of a list.
static inline void keep_sums(FW a, FW b, FW c, FW d, int pair, FW (&sums)[4]) {
  const FW s = add(a, swap_4(a)), t = add(b, swap_4(b)), u = add(c, swap_4(c)), v = add(d, swap_4(d));
  const FW st = add(__builtin_shufflevector(s, t, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),
                    __builtin_shufflevector(s, t, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31));
  const FW uv = add(__builtin_shufflevector(u, v, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),
                    __builtin_shufflevector(u, v, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31));
  const FW all = add(__builtin_shufflevector(st, uv, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                     __builtin_shufflevector(st, uv, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
  sums[0] = _mm512_mask_permute_ps(sums[0], lanes_of(pair), all, 0x00);
  sums[1] = _mm512_mask_permute_ps(sums[1], lanes_of(pair), all, 0x55);
  sums[2] = _mm512_mask_permute_ps(sums[2], lanes_of(pair), all, 0xaa);
  sums[3] = _mm512_mask_permute_ps(sums[3], lanes_of(pair), all, 0xff);
}

static inline void try_pair(const BlockPair& x, int pair, RoundFit& fit) {
  const FW m = set_wide(magic), inverse = of_pair(fit.inverse, pair), other = set_wide(level_scales[1]);
  FW y[4], q[4], r[4];
  for (int j = 0; j < 4; ++j) {
    y[j] = mul(x.v[j], inverse);
    q[j] = sub(add(y[j], m), m);
    r[j] = sub(fma(y[j], other, m), m);
  }
  keep_sums(wide_dot(y, q), wide_dot(y, r), wide_dot(q, q), wide_dot(r, r), pair, fit.sums);
}

static inline void choose_round(RoundFit& fit) {
  const FW(&s)[4] = fit.sums;
  const __mmask16 large = _mm512_cmp_ps_mask(fit.tops, set_wide(1e-30F), _CMP_GE_OQ);
  const __mmask16 best = _mm512_cmp_ps_mask(mul(mul(s[1], s[1]), s[2]), mul(mul(s[0], s[0]), s[3]), _CMP_GT_OQ);
  const FW ratio = div(_mm512_mask_blend_ps(best, s[0], s[1]), _mm512_mask_blend_ps(best, s[2], s[3]));
  const __mmask16 zeros = _mm512_cmp_ps_mask(s[0], set_wide(0.0F), _CMP_EQ_OQ);
  const FW none = _mm512_mask_blend_ps(zeros, set_wide(__builtin_nanf("")), set_wide(0.0F));
  fit.d = _mm512_mask_blend_ps(large, none, mul(mul(fit.tops, set_wide(1.0F / 127.0F)), ratio));
  fit.scale = _mm512_mask_blend_ps(large & best, set_wide(level_scales[0]), set_wide(level_scales[1]));
}

/// The 64 levels of a pair.
static inline __m512i levels_of(const BlockPair& x, int pair, const RoundFit& fit) {
  const FW m = set_wide(magic), inverse = of_pair(fit.inverse, pair), scale = of_pair(fit.scale, pair),
           d = of_pair(fit.d, pair);
  const __mmask16 good = _mm512_cmp_ps_mask(d, d, _CMP_ORD_Q);
  __m512i n[4];
  for (int j = 0; j < 4; ++j) {
    n[j] = _mm512_maskz_sub_epi32(good, bits_of(fma(mul(x.v[j], inverse), scale, m)), bits_of(m));
  }
  const __m512i low = _mm512_packs_epi32(n[0], n[1]), high = _mm512_packs_epi32(n[2], n[3]);
  const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  return _mm512_maskz_permutexvar_epi32(0xffff, order, _mm512_packs_epi16(low, high));
}

/// Casts: gcc 12 takes its own for reads of something uninitialized.
static inline __m128i low_128(__m512i a) { return __builtin_shufflevector(a, a, 0, 1); }
static inline __m256i low_256(__m512i a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3); }

/// Stores levels and their sums over halves, of one block if it is alone; returns the sums over blocks in all lanes.
static inline FW store_pair(__m512i q, bool alone, std::int8_t* out, std::int16_t* half) {
  const __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q);
  const __m512i twos = _mm512_add_epi32(fours, _mm512_maskz_shuffle_epi32(0xffff, fours, _MM_PERM_BADC));
  const __m512i halves = _mm512_add_epi32(twos, _mm512_maskz_shuffle_epi32(0xffff, twos, _MM_PERM_CDAB));
  const __m128i packed = low_128(_mm512_maskz_compress_epi32(0x1111, halves));
  const __m128i words = _mm_packs_epi32(packed, packed);
  if (alone) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), low_256(q));
    _mm_storeu_si32(half, words);
  } else {
    _mm512_storeu_si512(out, q);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(half), words);
  }
  const __m512i sums = _mm512_add_epi32(halves, _mm512_maskz_shuffle_i32x4(0xffff, halves, halves, _MM_PERM_CDAB));
  return _mm512_maskz_cvtepi32_ps(0xffff, sums);
}

/// Blocks b .. b + count - 1, 1 to 8 of them. A QuantRow of their own would be made in memory, and read from there too
/// early to be forwarded.
static inline void quantize_round(const float* x, std::int64_t b, int count, const QuantRow& out) {
  x += 32 * b;
  const int pairs = (count + 1) / 2;
  const auto pair_at = [&](int p) {
    const float* first = x + 64 * p;
    return load_pair(first, 2 * p + 1 < count ? first + 32 : first);
  };
  RoundFit fit;
  fit.tops = set_wide(0.0F);
  for (FW& sums : fit.sums) sums = set_wide(0.0F);
  for (int p = 0; p < pairs; ++p) fit.tops = keep_pair(fit.tops, top_of(pair_at(p)), p);
  const __mmask16 large = _mm512_cmp_ps_mask(fit.tops, set_wide(1e-30F), _CMP_GE_OQ);
  fit.inverse = _mm512_maskz_div_ps(large, set_wide(127.0F), fit.tops);
  for (int p = 0; p < pairs; ++p) try_pair(pair_at(p), p, fit);
  choose_round(fit);
  FW sums = set_wide(0.0F);
  for (int p = 0; p < pairs; ++p) {
    const __m512i q = levels_of(pair_at(p), p, fit);
    sums = keep_pair(sums, store_pair(q, 2 * p + 1 == count, out.q + 32 * b + 64 * p, out.half + 2 * b + 4 * p), p);
  }
  const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0);
  const __mmask16 there = static_cast<__mmask16>((1 << count) - 1);
  _mm512_mask_storeu_ps(out.d + b, there, _mm512_maskz_permutexvar_ps(0xffff, order, fit.d));
  _mm512_mask_storeu_ps(out.sum + b, there, _mm512_maskz_permutexvar_ps(0xffff, order, mul(fit.d, sums)));
}

static void quantize(const float* in, std::int64_t n, const QuantRow& out) {
  for (std::int64_t b = 0; b < n / 32; b += 8) {
    const std::int64_t left = n / 32 - b;
    quantize_round(in, b, static_cast<int>(left < 8 ? left : 8), out);
  }
}
