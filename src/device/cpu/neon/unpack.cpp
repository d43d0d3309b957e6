// Panels to slabs on NEON, and activations to 16 bits.
#include "device/cpu/neon/neon.h"
#include "device/cpu/target.h"
#include "quant/iq4.h"
#include "quant/mxfp4.h"

#if LLMINFER_CPU_NEON
#include <arm_neon.h>

namespace llminfer::cpu::neon {
namespace {
#include "device/cpu/neon/levels.h"
//
#include "device/cpu/kernels/unpack.inc"

static void widen(const std::int8_t* q, std::int64_t n, std::int16_t* out) {
  static const std::uint8_t order[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
  const uint8x16_t index = vld1q_u8(order);
  for (std::int64_t i = 0; i < n; i += 16) {
    const int8x16_t x = vqtbl1q_s8(vld1q_s8(q + i), index);
    vst1q_s16(out + i, vmovl_s8(vget_low_s8(x)));
    vst1q_s16(out + i + 8, vmovl_high_s8(x));
  }
}

}  // namespace

void add_unpackers(Kernels& kernels) noexcept {
  kernels.widen = widen;
#include "device/cpu/kernels/unpack_table.inc"
}

}  // namespace llminfer::cpu::neon
#endif
