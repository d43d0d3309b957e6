// The float kernels on NEON: aarch64's baseline, so that no region is needed.
#include "core/half.h"
#include "device/cpu/neon/neon.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_NEON
#include <arm_neon.h>

namespace llminfer::cpu::neon {
namespace {
#include "device/cpu/neon/vec8.h"
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

void add_float_kernels(Kernels& kernels) noexcept {
#include "device/cpu/kernels/table.inc"
//
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu::neon
#endif
