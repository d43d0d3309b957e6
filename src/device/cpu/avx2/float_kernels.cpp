// The float kernels compiled for AVX2, FMA and F16C.
#include "device/cpu/avx2/avx2.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX2_BEGIN
namespace llminfer::cpu::avx2 {
namespace {
#include "device/cpu/avx2/vec8.h"
//
#include "device/cpu/kernels/wide8.inc"
//
#include "device/cpu/kernels/math.inc"
//
#include "device/cpu/kernels/elementwise.inc"
#include "device/cpu/kernels/norm.inc"
#include "device/cpu/kernels/quantize.inc"
#include "device/cpu/kernels/real_tile.inc"
//
#include "device/cpu/kernels/kv.inc"
//
#include "device/cpu/kernels/attention_tiles.inc"
//
static const bool bf16_products = false;
#include "device/cpu/kernels/pairs.inc"
//
#include "device/cpu/kernels/no_tile_products.inc"
//
#include "device/cpu/kernels/attention.inc"
}  // namespace
}  // namespace llminfer::cpu::avx2
LLMINFER_TARGET_END

namespace llminfer::cpu::avx2 {

void add_float_kernels(Kernels& kernels) noexcept {
#include "device/cpu/kernels/table.inc"
//
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu::avx2
#endif
