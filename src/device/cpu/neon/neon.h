// Declarations that the tables for aarch64 gather from their files.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::neon {

void add_float_kernels(Kernels& kernels) noexcept;
void add_unpackers(Kernels& kernels) noexcept;
void add_plain(Kernels& kernels) noexcept;    ///< matmuls without further instructions
void add_dotprod(Kernels& kernels) noexcept;  ///< over add_plain
void add_i8mm(Kernels& kernels) noexcept;     ///< likewise

}  // namespace llminfer::cpu::neon
