// Products of one, a few and groups of columns for AVX-512 with VNNI, levels unpacked in registers.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx512/levels.h"
//
#include "device/cpu/avx512/dots.h"
//
#include "device/cpu/kernels/packed_formats.inc"
//
#include "device/cpu/kernels/panel_walk.inc"
//
#include "device/cpu/kernels/packed.inc"
//
#include "device/cpu/kernels/half_rows.inc"
//
#include "device/cpu/kernels/groups.inc"
//
#include "device/cpu/kernels/group_panels.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_packed(Kernels& kernels) noexcept {
#include "device/cpu/kernels/group_panel_table.inc"
#include "device/cpu/kernels/packed_table.inc"
  kernels.half_rows[static_cast<int>(WeightType::f16)] = half_rows<false>;
  kernels.half_rows[static_cast<int>(WeightType::bf16)] = half_rows<true>;
}

}  // namespace llminfer::cpu::avx512
#endif
