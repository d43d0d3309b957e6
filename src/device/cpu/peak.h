// Loops that do nothing but what a roof is made of: reading, and the multiply-adds of the matmul kernels, from
// registers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llminfer::cpu {

/// Of one instruction set. A rate loop runs `rounds` times over its independent chains and returns something that
/// depends on all of them; `*_ops` is what one round does (a multiply-add is two). Null: no such kernels.
struct PeakLoops {
  std::uint64_t (*read)(const std::byte* data, std::size_t bytes) = nullptr;  ///< bytes: a multiple of 1,024
  float (*f32)(std::int64_t rounds) = nullptr;
  std::int64_t f32_ops = 0;
  std::int32_t (*int8)(std::int64_t rounds) = nullptr;
  std::int64_t int8_ops = 0;
  float (*bf16)(std::int64_t rounds) = nullptr;
  std::int64_t bf16_ops = 0;
};

namespace portable {
void add_peak_loops(PeakLoops& loops) noexcept;
}
namespace avx2 {
void add_peak_loops(PeakLoops& loops) noexcept;
}
namespace avxvnni {  // its 8-bit products; the rest is AVX2's
void add_peak_loops(PeakLoops& loops) noexcept;
}
namespace neon {
void add_peak_loops(PeakLoops& loops) noexcept;
void add_dot_peak_loops(PeakLoops& loops) noexcept;  ///< 8-bit products, where there are such instructions
}  // namespace neon
namespace avx512 {  // as avxvnni, and floats
void add_peak_loops(PeakLoops& loops) noexcept;
void add_bf16_peak_loop(PeakLoops& loops) noexcept;
void add_amx_peak_loop(PeakLoops& loops) noexcept;  ///< of tiles, to be run where choose_kernels() gave "amx"
}  // namespace avx512

/// Those of a table of kernels.
PeakLoops peak_loops_of(std::string_view isa) noexcept;

}  // namespace llminfer::cpu
