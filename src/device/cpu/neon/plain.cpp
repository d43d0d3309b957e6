// Matmul kernels for NEON without dot products of bytes: two multiplications to 16 bits, then sums of pairs.
#include "device/cpu/neon/neon.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_NEON
#include <arm_neon.h>

namespace llminfer::cpu::neon {
namespace {
#include "device/cpu/neon/vectors.h"

/// Sums of two products stay within 16 bits: at most 2 * 127 * 128.
LLMINFER_INLINE I dot(I sum, I u, I s) {
  const int8x16_t a = vreinterpretq_s8_s32(u), b = vreinterpretq_s8_s32(s);
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
}
LLMINFER_INLINE I flip(I a) { return a; }
#include "device/cpu/kernels/dots.inc"
//
#include "device/cpu/kernels/dot.inc"
//
#include "device/cpu/kernels/dot_bytes.inc"
}  // namespace

void add_plain(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
//
#include "device/cpu/kernels/dot_bytes_table.inc"
}

}  // namespace llminfer::cpu::neon
#endif
