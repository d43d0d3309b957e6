#include "plain_bf16.h"

#include "device/cpu/portable/vec8.h"

namespace llminfer::cpu {
namespace portable {
namespace {
#include "device/cpu/kernels/wide8.inc"
//
#include "device/cpu/kernels/math.inc"
//
#include "device/cpu/kernels/kv.inc"
//
#include "device/cpu/kernels/attention_tiles.inc"

const bool bf16_products = true;
#include "device/cpu/kernels/pairs.inc"
//
#include "device/cpu/kernels/no_tile_products.inc"
//
#include "device/cpu/kernels/attention.inc"
}  // namespace
}  // namespace portable

void test::add_plain_bf16(Kernels& kernels) {
  using namespace portable;
#include "device/cpu/kernels/attention_table.inc"
}

}  // namespace llminfer::cpu
