// Products of slabs with groups of columns for AVX-512 with VNNI: the 16 rows of a panel are one vector.
#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AVX512_BEGIN
namespace llminfer::cpu::avx512 {
namespace {
#include "device/cpu/avx512/levels.h"
//
#include "device/cpu/avx512/dots.h"
//
#include "device/cpu/kernels/packed_kinds.inc"
//
#include "device/cpu/kernels/groups.inc"
//
#include "device/cpu/kernels/group_tiles.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_group_tiles(Kernels& kernels) noexcept {
#include "device/cpu/kernels/group_table.inc"
}

}  // namespace llminfer::cpu::avx512
#endif
