// The kernels of packed.inc with the levels of AVX2 and a dot product of bytes made of its multiplications, so that
// what AVX-VNNI runs is tested where the processor has no such instruction.
#include "device/cpu/target.h"
#include "matmul_case.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::test {
namespace {
#include "device/cpu/avx2/levels.h"
//
#include "device/cpu/kernels/dword.inc"
//
#include "device/cpu/kernels/dot_lines.inc"

constexpr int packed_columns = 4;

inline void store_f(float* p, int part, F a) { _mm256_storeu_ps(p + 8 * part, a); }
inline F set_f(float x) { return _mm256_set1_ps(x); }
/// Seven bits and the highest one apart, for sums of two products must stay below 32,768.
inline I dot(I sum, I u, I s) {
  const I ones = _mm256_set1_epi16(1), low = and_i(u, set8(127)), high = and_i(shr16(u, 7), set8(1));
  const I below = _mm256_madd_epi16(_mm256_maddubs_epi16(low, s), ones);
  const I above = _mm256_madd_epi16(_mm256_maddubs_epi16(high, s), ones);
  return _mm256_add_epi32(sum, _mm256_add_epi32(below, shl32(above, 7)));
}
inline I dot_16(I sum, I a, I b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
inline I add_i(I a, I b) { return _mm256_add_epi32(a, b); }
inline I mul_i(I a, I b) { return _mm256_mullo_epi32(a, b); }
inline I flip(I a) { return _mm256_xor_si256(a, set32(0x80808080U)); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
#include "device/cpu/kernels/packed_formats.inc"
//
#include "device/cpu/kernels/panel_walk.inc"
//
#include "device/cpu/kernels/packed.inc"
}  // namespace
}  // namespace llminfer::cpu::test
LLMINFER_TARGET_END

namespace llminfer::cpu::test {
namespace {

void add_packed(Kernels& kernels){
#include "device/cpu/kernels/packed_table.inc"
}

TEST_CASE("panels times few columns by dot products of bytes: the bits of the portable kernels") {
  const Kernels portable = choose_kernels("portable");
  Kernels kernels = portable;
  try {
    kernels = choose_kernels("avx2");
  } catch (const Exception&) {
    WARN("skipped: no AVX2");
    return;
  }
  add_packed(kernels);
  std::mt19937 random(23);
  for (WeightType type : weight_types) {
    if (slab_format(type).kind == SlabKind::real) continue;
    for (std::int64_t count : {1, 2, 3, 4, 5, 9, 16, 17}) {
      INFO(describe(type).name << " columns " << count);
      Case c(type, 37, count == 1 ? 1280 : 256, count, random);
      REQUIRE(same_bits(c.run(kernels, 2), c.run(portable, 1)));
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
#endif
