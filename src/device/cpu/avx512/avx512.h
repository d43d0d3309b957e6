// Declarations that the AVX-512 table gathers from its files. Over the AVX2 table, which it begins as.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::avx512 {

void add_float_kernels(Kernels& kernels) noexcept;
void add_unpackers(Kernels& kernels) noexcept;
void add_group_tiles(Kernels& kernels) noexcept;
void add_packed(Kernels& kernels) noexcept;
void add_bf16_attention(Kernels& kernels) noexcept;  ///< over that of add_float_kernels
void add_amx_products(Kernels& kernels) noexcept;    ///< over those of add_group_tiles
void add_amx_attention(Kernels& kernels) noexcept;   ///< over that of add_float_kernels

}  // namespace llminfer::cpu::avx512
