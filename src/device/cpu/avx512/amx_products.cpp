// Products of slabs with groups of columns by tiles of bytes (AMX).
#include <type_traits>

#include "device/cpu/avx512/avx512.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_X86
#include <immintrin.h>

LLMINFER_AMX_BEGIN
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
#include "device/cpu/avx512/tiles.h"
//
#include "device/cpu/avx512/byte_tiles.inc"
//
#include "device/cpu/avx512/whole_levels.inc"
}  // namespace
}  // namespace llminfer::cpu::avx512
LLMINFER_TARGET_END

namespace llminfer::cpu::avx512 {
namespace {

struct TiledFormat {
  WeightType type;
  void (*unpack)(const UnpackArgs& args);
};
constexpr TiledFormat tiled_formats[] = {
    {WeightType::q4_0, unpack_signed<PackedQ4_0>},
    {WeightType::q4_1, unpack_signed<PackedQ4_1>},
    {WeightType::q5_0, unpack_signed<PackedQ5_0>},
    {WeightType::q5_1, unpack_signed<PackedQ5_1>},
    {WeightType::q4_k, unpack_signed<PackedQ4_K<Counted>>},
    {WeightType::q5_k, unpack_signed<PackedQ5_K<Counted>>},
    {WeightType::iq4_nl, unpack_signed<PackedIq4_Nl>},
    {WeightType::iq4_xs, unpack_signed<PackedIq4_Xs<Counted>>},
    {WeightType::mxfp4, unpack_signed<PackedMxfp4>},
    {WeightType::q3_k, unpack_negated<PackedQ3_K<Counted>, 4, 0>},
};

}  // namespace

void add_amx_products(Kernels& kernels) noexcept {
  for (const TiledFormat& format : tiled_formats) {
    const int type = static_cast<int>(format.type);
    kernels.unpack_grouped[type] = format.unpack;
    kernels.most_grouped_panel[type] = 2 * group_columns;
  }
  kernels.panel_tile[static_cast<int>(WeightType::q8_0)] = any_group<ByteTiles<PanelBlocks>, 9, 10, 11, 12>;
  kernels.most_grouped_panel[static_cast<int>(WeightType::q8_0)] = 2 * group_columns;
  kernels.begin_group_tiles = begin_byte_tiles;
  kernels.end_group_tiles = end_byte_tiles;
  // Groups of more than 24 columns have nine columns at least.
  for (const SlabKind kind : {SlabKind::nibble, SlabKind::five, SlabKind::byte}) {
    kernels.group_tile[static_cast<int>(kind)] = any_group<ByteTiles<SlabBlocks<SlabScaled>>, 9, 10, 11, 12>;
  }
  for (const SlabKind kind : {SlabKind::nibble_min, SlabKind::five_min}) {
    kernels.group_tile[static_cast<int>(kind)] = any_group<ByteTiles<SlabBlocks<SlabMin>>, 9, 10, 11, 12>;
  }
}

}  // namespace llminfer::cpu::avx512
#endif
