// Declarations that the AVX2 table gathers from its files.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::avx2 {

void add_float_kernels(Kernels& kernels) noexcept;
void add_unpackers(Kernels& kernels) noexcept;
void add_tiles(Kernels& kernels) noexcept;
void add_few(Kernels& kernels) noexcept;
void add_gemv(Kernels& kernels) noexcept;
void add_rare_gemv(Kernels& kernels) noexcept;

}  // namespace llminfer::cpu::avx2
