// Matmul kernels for AVX-VNNI (processors without AVX-512): the 16 rows of a panel are two vectors.
#include "device/cpu/avxvnni/avxvnni.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVXVNNI_BEGIN
namespace llminfer::cpu::avxvnni {
namespace {

typedef __m256i I;
typedef __m256 F;
constexpr int parts = 2;
constexpr int signed_offset = 128;

static inline I load_i(const void* p, int part) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + part);
}
static inline F load_f(const float* p, int part) { return _mm256_loadu_ps(p + 8 * part); }
static inline F load_halves(const void* p, int part) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + part));
}
static inline void store_f(float* p, int part, F a) { _mm256_storeu_ps(p + 8 * part, a); }
static inline I set_i(int x) { return _mm256_set1_epi32(x); }
static inline F set_f(float x) { return _mm256_set1_ps(x); }
static inline I dot(I sum, I u, I s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
static inline I dot_16(I sum, I a, I b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
static inline I add_i(I a, I b) { return _mm256_add_epi32(a, b); }
static inline I mul_i(I a, I b) { return _mm256_mullo_epi32(a, b); }
static inline I low_half(I a) { return _mm256_srai_epi32(_mm256_slli_epi32(a, 16), 16); }
static inline I flip(I a) { return _mm256_xor_si256(a, _mm256_set1_epi32(static_cast<int>(0x80808080U))); }
static inline F to_f(I a) { return _mm256_cvtepi32_ps(a); }
static inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
static inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
static inline void prefetch(const std::byte* p, std::int64_t stride) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(p + stride), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(p + 2 * stride), _MM_HINT_T1);
}
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"

}  // namespace
}  // namespace llminfer::cpu::avxvnni
LLMINFER_TARGET_END

namespace llminfer::cpu::avxvnni {

void add_vnni(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
}

}  // namespace llminfer::cpu::avxvnni
#endif
