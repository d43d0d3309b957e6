// The float products on AVX-512, in place of kernels/real_tile.inc and of the float tiles of attention: 16 columns are
// a vector. Every result is the same chain of fma, so the bits are those of all other kernels. Included inside a target
// region and namespace llminfer::cpu::avx512, after <immintrin.h>.

/// Where rows of a and c lie: evenly apart, or each somewhere.
struct EvenRows {
  const float* a;
  std::int64_t a_stride;
  float* c;
  std::int64_t c_stride;
  const float* in(int r) const { return a + r * a_stride; }
  float* out(int r) const { return c + r * c_stride; }
};
struct ListedRows {
  const float* const* a;
  float* const* c;
  const float* in(int r) const { return a[r]; }
  float* out(int r) const { return c[r]; }
};

/// 16 * vectors columns (1 or 2) of up to 6 rows. 12 accumulators, 2 of b; a broadcast serves both.
template <class Rows>
static inline __attribute__((always_inline)) void wide_tile(Rows at, const float* b, std::int64_t b_stride, int rows,
                                                            int vectors, std::int64_t n, bool accumulate) {
  __m512 s[6][2];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      s[r][v] = accumulate ? _mm512_loadu_ps(at.out(r) + 16 * v) : _mm512_setzero_ps();
    }
  }
  for (std::int64_t k = 0; k < n; ++k, b += b_stride) {
    __m512 x[2];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) x[v] = _mm512_loadu_ps(b + 16 * v);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const __m512 f = _mm512_set1_ps(at.in(r)[k]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) s[r][v] = _mm512_fmadd_ps(f, x[v], s[r][v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(at.out(r) + 16 * v, s[r][v]);
  }
}

/// 16 * vectors columns of any number of rows.
static inline __attribute__((always_inline)) void wide_strip(const float* a, std::int64_t a_stride, const float* b,
                                                             std::int64_t b_stride, float* c, std::int64_t c_stride,
                                                             int rows, int vectors, std::int64_t n, bool accumulate) {
  for (; rows >= 6; rows -= 6, a += 6 * a_stride, c += 6 * c_stride) {
    wide_tile(EvenRows{a, a_stride, c, c_stride}, b, b_stride, 6, vectors, n, accumulate);
  }
  for (; rows >= 2; rows -= 2, a += 2 * a_stride, c += 2 * c_stride) {
    wide_tile(EvenRows{a, a_stride, c, c_stride}, b, b_stride, 2, vectors, n, accumulate);
  }
  if (rows == 1) wide_tile(EvenRows{a, a_stride, c, c_stride}, b, b_stride, 1, vectors, n, accumulate);
}

static inline void strip_32(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                            std::int64_t c_stride, int rows, std::int64_t n, bool accumulate) {
  wide_strip(a, a_stride, b, b_stride, c, c_stride, rows, 2, n, accumulate);
}

static inline void strip_16(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                            std::int64_t c_stride, int rows, std::int64_t n, bool accumulate) {
  wide_strip(a, a_stride, b, b_stride, c, c_stride, rows, 1, n, accumulate);
}

/// Any number of columns, in whole 16.
static inline void float_columns(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* c,
                                 std::int64_t c_stride, int rows, std::int32_t columns, std::int64_t n,
                                 bool accumulate) {
  std::int32_t j = 0;
  for (; j + 32 <= columns; j += 32) strip_32(a, a_stride, b + j, b_stride, c + j, c_stride, rows, n, accumulate);
  if (j < columns) strip_16(a, a_stride, b + j, b_stride, c + j, c_stride, rows, n, accumulate);
}
