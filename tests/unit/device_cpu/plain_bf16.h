// Attention with products of bf16 in plain code: what processors that have them must compute, bit for bit.
#pragma once

#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {

void add_plain_bf16(Kernels& kernels);

}  // namespace llminfer::cpu::test
