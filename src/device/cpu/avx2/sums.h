// What the matmul kernels share: broadcasts, sums kept in registers, results in memory, prefetching. Included inside a
// target region and namespace llminfer::cpu::avx2, after <immintrin.h>.

#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/prefetch.inc"

/// gcc spills the int16 accumulators unless each is pinned.
LLMINFER_INLINE __m256i pin(__m256i x) {
  __asm__("" : "+x"(x));
  return x;
}

LLMINFER_INLINE __m256i broadcast(const void* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

LLMINFER_INLINE __m256i widen(__m256i s) { return _mm256_madd_epi16(s, _mm256_set1_epi16(1)); }

/// Results so far: of each column, two vectors. In memory, since the sums need the registers.
struct alignas(32) Results {
  float y[tile_columns][panel_rows];
};

LLMINFER_INLINE void begin(Results& r, const QuantColumn* columns, int count, bool add) {
  for (int c = 0; c < count; ++c) {
    _mm256_store_ps(r.y[c], add ? _mm256_loadu_ps(columns[c].out) : _mm256_setzero_ps());
    _mm256_store_ps(r.y[c] + 8, add ? _mm256_loadu_ps(columns[c].out + 8) : _mm256_setzero_ps());
  }
}

LLMINFER_INLINE void write(const Results& r, const QuantColumn* columns, int count) {
  for (int c = 0; c < count; ++c) {
    _mm256_storeu_ps(columns[c].out, _mm256_load_ps(r.y[c]));
    _mm256_storeu_ps(columns[c].out + 8, _mm256_load_ps(r.y[c] + 8));
  }
}

/// y += sum * (d * dx)
LLMINFER_INLINE void scale_add(float* y, __m256i sum, __m256 d, __m256 dx) {
  _mm256_store_ps(y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, dx), _mm256_load_ps(y)));
}
