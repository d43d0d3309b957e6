// Declarations that a table gathers from its files.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::portable {

void add_float_kernels(Kernels& kernels) noexcept;
void add_matmul_kernels(Kernels& kernels) noexcept;

/// Any panel to its slab, row by row through the file's blocks: the truth that faster unpackers are tested against.
void unpack_panel(const UnpackArgs& args);

}  // namespace llminfer::cpu::portable
