// Attention with products of tiles of bf16 in plain code, number by number: what AMX must compute, bit for bit.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {

void add_plain_tiles(Kernels& kernels);

}  // namespace llminfer::cpu::test
