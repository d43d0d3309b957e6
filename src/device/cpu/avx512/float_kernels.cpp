// The float kernels compiled for AVX-512: products on 512 bits, the rest as on AVX2 with twice the registers.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx2/vec8.h"
//
#include "device/cpu/avx512/vec16.h"
//
#include "device/cpu/kernels/math.inc"
//
#include "device/cpu/kernels/elementwise.inc"
#include "device/cpu/kernels/norm.inc"
//
#include "device/cpu/kernels/level_scales.inc"
//
#include "device/cpu/avx512/quantize.h"
//
#include "device/cpu/kernels/kv.inc"
//
#include "device/cpu/avx512/float_tiles.h"

static inline void real_tile(const float* const* a, const float* b, std::int64_t b_stride, float* const* c, int rows,
                             std::int64_t n, bool accumulate) {
  if (rows == 6) return wide_tile(ListedRows{a, c}, b, b_stride, 6, 1, n, accumulate);
  for (; rows >= 2; rows -= 2, a += 2, c += 2) wide_tile(ListedRows{a, c}, b, b_stride, 2, 1, n, accumulate);
  if (rows == 1) wide_tile(ListedRows{a, c}, b, b_stride, 1, 1, n, accumulate);
}
//
static const bool bf16_products = false;
#include "device/cpu/kernels/pairs.inc"
//
#include "device/cpu/kernels/no_tile_products.inc"
//
#include "device/cpu/kernels/attention.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_float_kernels(Kernels& kernels) noexcept {
#include "device/cpu/kernels/table.inc"
//
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
