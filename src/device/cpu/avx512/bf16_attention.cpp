// Attention for AVX-512 with products of pairs of bf16 (VDPBF16PS).
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BF16_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx2/vec8.h"
//
#include "device/cpu/avx512/vec16.h"
//
#include "device/cpu/kernels/math.inc"
//
#include "device/cpu/kernels/kv.inc"
//
#include "device/cpu/avx512/float_tiles.h"
//
#include "device/cpu/avx512/bf16_pairs.inc"
//
#include "device/cpu/kernels/no_tile_products.inc"
//
#include "device/cpu/kernels/attention.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_bf16_attention(Kernels& kernels) noexcept {
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
