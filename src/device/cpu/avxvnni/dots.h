// The operations that kernels/dot.inc and packed.inc want beside those of avx2/levels.h, with AVX-VNNI. Included after
// it.
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/prefetch.inc"
//
#include "device/cpu/kernels/dot_lines.inc"

inline constexpr int packed_columns = 4;

static inline F load_f(const float* p, int part) { return _mm256_loadu_ps(p + 8 * part); }
static inline void store_f(float* p, int part, F a) { _mm256_storeu_ps(p + 8 * part, a); }
static inline F set_f(float x) { return _mm256_set1_ps(x); }
static inline I dot(I sum, I u, I s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
static inline I dot_16(I sum, I a, I b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
static inline I add_i(I a, I b) { return _mm256_add_epi32(a, b); }
static inline I mul_i(I a, I b) { return _mm256_mullo_epi32(a, b); }
static inline I flip(I a) { return _mm256_xor_si256(a, set32(0x80808080U)); }
static inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
