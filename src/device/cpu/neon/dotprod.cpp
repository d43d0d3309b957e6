// Matmul kernels for NEON with dot products of bytes (SDOT).
#include "device/cpu/neon/neon.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_NEON_DOT
#include <arm_neon.h>

LLMINFER_DOTPROD_BEGIN
namespace llminfer::cpu::neon {
namespace {
#include "device/cpu/neon/vectors.h"
//
#include "device/cpu/neon/lane_dots.h"

LLMINFER_INLINE void dots(const std::uint8_t (*levels)[panel_rows][4], int part, const QuantColumn* columns, int count,
                          std::int64_t b, int first, int words, bool, I* s) {
  lane_dots(levels, part, columns, count, b, first, words, s);
}
#include "device/cpu/kernels/dot.inc"
//
#include "device/cpu/kernels/dot_bytes.inc"
}  // namespace
}  // namespace llminfer::cpu::neon
LLMINFER_NEON_END

namespace llminfer::cpu::neon {

void add_dotprod(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
//
#include "device/cpu/kernels/dot_bytes_table.inc"
}

}  // namespace llminfer::cpu::neon
#endif
