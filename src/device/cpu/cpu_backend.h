// The CPU device: packed weights, SIMD kernels chosen at run time, threads of its own.
#pragma once

#include <memory>
#include <string>

#include <llminfer/backend/backend.hpp>

#include "core/memory.h"

namespace llminfer::cpu {

struct CpuSettings {
  int threads = 0;           ///< 0: the cores that the process may use; at most 1024
  std::string isa = "auto";  ///< "auto" or a name of choose_kernels
  bool huge_pages = true;    ///< for memory made here, when the caller gives none
};

/// Opens the device. `memory` counts and limits what it takes; null: one of its own. Throws Exception: invalid_argument
/// (threads, isa), unavailable (isa, threads).
std::shared_ptr<backend::Backend> make_cpu_backend(const CpuSettings& settings,
                                                   std::shared_ptr<core::Memory> memory = nullptr);

}  // namespace llminfer::cpu
