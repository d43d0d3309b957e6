// How many blocks of a kernel a multiprocessor of a chip has room for, by the toolkit's own rules.
#pragma once

#include <cstddef>

#include "runtime/device.h"

namespace ptxsim::runtime {

/// What a kernel takes.
struct KernelNeeds {
  int registers = 0;                   ///< of a thread
  std::size_t static_shared = 0;       ///< bytes
  std::size_t max_dynamic_shared = 0;  ///< bytes, as its attribute says
};

/// Blocks of `threads` threads with `dynamic_shared` bytes; 0 where one does not fit.
int blocks_per_multiprocessor(const Chip& chip, const KernelNeeds& kernel, int threads, std::size_t dynamic_shared);

}  // namespace ptxsim::runtime
