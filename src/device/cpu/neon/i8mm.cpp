// Matmul kernels for NEON with products of small matrices of bytes: SMMLA takes 8 bytes of two rows and of two columns
// to four sums, twice the products of SDOT.
#include "device/cpu/neon/neon.h"
#include "device/cpu/target.h"

#if LLMINFER_CPU_NEON_DOT
#include <arm_neon.h>

LLMINFER_I8MM_BEGIN
namespace llminfer::cpu::neon {
namespace {
#include "device/cpu/neon/vectors.h"
//
#include "device/cpu/neon/lane_dots.h"

/// Two columns' 16 bytes as operands: 8 bytes of each, then the next 8.
struct ColumnPair {
  int8x16_t q[2];
};

LLMINFER_INLINE ColumnPair load_pair(const std::int8_t* one, const std::int8_t* other) {
  const int64x2_t x = vreinterpretq_s64_s8(vld1q_s8(one)), y = vreinterpretq_s64_s8(vld1q_s8(other));
  return {{vreinterpretq_s8_s64(vzip1q_s64(x, y)), vreinterpretq_s8_s64(vzip2q_s64(x, y))}};
}

/// s[0], s[1] += levels . q for two columns.
LLMINFER_INLINE void pair_dots(const std::uint8_t (*levels)[panel_rows][4], int part, const QuantColumn* columns,
                               std::int64_t b, int first, int words, I* s) {
  I upper = vdupq_n_s32(0), lower = upper;  // rows 0 and 1, 2 and 3: row, column 00 01 10 11
#pragma GCC unroll 2
  for (int w = first; w < first + words; w += 4) {
    const ColumnPair q = load_pair(columns[0].q + 32 * b + 4 * w, columns[1].q + 32 * b + 4 * w);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const I even = load_i(levels[w + 2 * i], part), odd = load_i(levels[w + 2 * i + 1], part);
      upper = vmmlaq_s32(upper, vreinterpretq_s8_s32(vzip1q_s32(even, odd)), q.q[i]);
      lower = vmmlaq_s32(lower, vreinterpretq_s8_s32(vzip2q_s32(even, odd)), q.q[i]);
    }
  }
  s[0] = vaddq_s32(s[0], vuzp1q_s32(upper, lower));
  s[1] = vaddq_s32(s[1], vuzp2q_s32(upper, lower));
}

LLMINFER_INLINE void dots(const std::uint8_t (*levels)[panel_rows][4], int part, const QuantColumn* columns, int count,
                          std::int64_t b, int first, int words, bool, I* s) {
#pragma GCC unroll 2
  for (int c = 0; c + 1 < count; c += 2) pair_dots(levels, part, columns + c, b, first, words, s + c);
  if (count % 2 != 0) lane_dots(levels, part, columns + count - 1, 1, b, first, words, s + count - 1);
}
#include "device/cpu/kernels/dot.inc"
//
#include "device/cpu/kernels/dot_bytes.inc"
}  // namespace
}  // namespace llminfer::cpu::neon
LLMINFER_NEON_END

namespace llminfer::cpu::neon {

void add_i8mm(Kernels& kernels) noexcept {
#include "device/cpu/kernels/dot_table.inc"
//
#include "device/cpu/kernels/dot_bytes_table.inc"
}

}  // namespace llminfer::cpu::neon
#endif
