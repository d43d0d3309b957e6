// The float kernels compiled for the baseline.
#include "device/cpu/portable/float_kernels.h"

#include <algorithm>

#include "device/cpu/portable/vec8.h"

namespace llminfer::cpu {

std::size_t attention_scratch(std::int32_t k_width, std::int32_t v_width) noexcept {
  const std::size_t k = static_cast<std::size_t>(k_width), v = static_cast<std::size_t>(attention_stride(v_width));
  const std::size_t least = 64;  // of keys: room for the last columns of four pages, where those are filled up
  return attention_rows * (std::max<std::size_t>(k, 16) + 128 + 2 * v + 7) + 32 * std::max(k, least) + 128 * v + 32;
}

namespace portable {
namespace {
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

}  // namespace portable
}  // namespace llminfer::cpu
