// Measures what this processor could do, with the instructions that a table of kernels uses.
#pragma once

#include <memory>

#include <llminfer/ceilings.hpp>

#include "core/memory.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu {

/// About `seconds` long, with threads of its own: 1, 2, 4, ..., `threads`, and as many as the process has cores. Takes
/// 256 MiB of `memory` for the time. Fills Ceilings::at and busy. Throws out_of_memory, unavailable (no threads),
/// invalid_argument (seconds).
Ceilings measure(const Kernels& kernels, int threads, double seconds, const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
