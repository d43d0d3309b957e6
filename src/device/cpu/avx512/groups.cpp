// Products of slabs with groups of columns for AVX-512 with VNNI: the 16 rows of a panel are one vector.
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
#include "device/cpu/kernels/groups.inc"
//
#include "device/cpu/kernels/group_tiles.inc"
//
#include "device/cpu/avx512/whole_levels.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {

void add_group_tiles(Kernels& kernels) noexcept {
#include "device/cpu/kernels/group_table.inc"
  kernels.unpack_grouped[static_cast<int>(WeightType::q2_k)] = unpack_scaled<PackedQ2_K<Counted>>;
  kernels.group_tile[static_cast<int>(SlabKind::group_min)] =
      any_group<SlabTile<GroupSource<PackedKind::whole_minima>>, 4, 6, 8, 10, 11, 12>;
  kernels.unpack_grouped[static_cast<int>(WeightType::q3_k)] = unpack_negated<PackedQ3_K<Counted>, 4, 128>;
  kernels.grouped_slab[static_cast<int>(WeightType::q3_k)] = {SlabKind::five, 128};
}

}  // namespace llminfer::cpu::avx512
#endif
