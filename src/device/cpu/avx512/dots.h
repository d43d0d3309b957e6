// The operations that kernels/dot.inc and packed.inc want beside those of levels.h, on AVX-512 with VNNI. Included
// after it.
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/prefetch.inc"
//
#include "device/cpu/kernels/dot_lines.inc"

inline constexpr int packed_columns = 4;  // more of them go in groups

static inline F load_f(const float* p, int) { return _mm512_loadu_ps(p); }
static inline void store_f(float* p, int, F a) { _mm512_storeu_ps(p, a); }
static inline F set_f(float x) { return _mm512_set1_ps(x); }
static inline I dot(I sum, I u, I s) { return _mm512_dpbusd_epi32(sum, u, s); }
static inline I dot_16(I sum, I a, I b) { return _mm512_dpwssd_epi32(sum, a, b); }
static inline I add_i(I a, I b) { return _mm512_add_epi32(a, b); }
static inline I mul_i(I a, I b) { return _mm512_mullo_epi32(a, b); }
static inline I flip(I a) { return _mm512_xor_si512(a, set32(0x80808080U)); }
static inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
