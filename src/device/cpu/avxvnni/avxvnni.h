// Declarations that the AVX-VNNI table gathers from its files. Over the AVX2 table, which it begins as.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::avxvnni {

void add_vnni(Kernels& kernels) noexcept;
void add_packed(Kernels& kernels) noexcept;

}  // namespace llminfer::cpu::avxvnni
