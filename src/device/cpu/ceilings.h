// Measures what this processor could do, with the instructions that a table of kernels uses.
#pragma once

#include <memory>

#include <llminfer/ceilings.hpp>

#include "core/cpu_info.h"
#include "core/memory.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu {

/// Bytes that are read to measure memory, 256 MiB to 1 GiB: half as much again as the last cache, of which a guest may
/// see its host's. Less would be read from that cache in part.
std::size_t ceilings_buffer(const core::CacheSizes& caches) noexcept;

/// About `seconds` long, with threads of its own: 1, 2, 4, ..., `threads`, and as many as the process has cores. Takes
/// ceilings_buffer() bytes of `memory` for the time. Fills Ceilings::at and busy. Throws out_of_memory, unavailable (no
/// threads), invalid_argument (seconds).
Ceilings measure(const Kernels& kernels, int threads, double seconds, const std::shared_ptr<core::Memory>& memory);

}  // namespace llminfer::cpu
