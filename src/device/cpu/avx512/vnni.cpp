// Matmul kernels for AVX-512 with VNNI: the 16 rows of a panel are one vector.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {

typedef __m512i I;
typedef __m512 F;
constexpr int parts = 1;
constexpr int signed_offset = 128;
constexpr __mmask16 all = 0xffff;  // gcc 12 warns of the undefined operand in the unmasked forms; the code is the same

static inline I load_i(const void* p, int) { return _mm512_loadu_si512(p); }
static inline F load_f(const float* p, int) { return _mm512_loadu_ps(p); }
static inline F load_halves(const void* p, int) {
  return _mm512_maskz_cvtph_ps(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline void store_f(float* p, int, F a) { _mm512_storeu_ps(p, a); }
static inline I set_i(int x) { return _mm512_set1_epi32(x); }
static inline F set_f(float x) { return _mm512_set1_ps(x); }
static inline I dot(I sum, I u, I s) { return _mm512_dpbusd_epi32(sum, u, s); }
static inline I dot_16(I sum, I a, I b) { return _mm512_dpwssd_epi32(sum, a, b); }
static inline I add_i(I a, I b) { return _mm512_add_epi32(a, b); }
static inline I mul_i(I a, I b) { return _mm512_mullo_epi32(a, b); }
static inline I low_half(I a) { return _mm512_maskz_srai_epi32(all, _mm512_maskz_slli_epi32(all, a, 16), 16); }
static inline I flip(I a) { return _mm512_xor_si512(a, _mm512_set1_epi32(static_cast<int>(0x80808080U))); }
static inline F to_f(I a) { return _mm512_maskz_cvtepi32_ps(all, a); }
static inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
static inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
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
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_vnni(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
