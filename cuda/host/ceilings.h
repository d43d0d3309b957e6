// What a GPU could do at best, measured.
#pragma once

#include <llminfer/ceilings.hpp>

#include <memory>

#include "host/engine.h"

namespace llminfer::cuda {

/// How much a round does, and for how long rounds are repeated.
struct CeilingsPlan {
  std::uint64_t bytes = std::uint64_t{1} << 30;  ///< of each of two buffers; less where there is no room
  std::int32_t rounds = 2048;                    ///< TensorParams::rounds
  double seconds = 2;
  int least = 5;  ///< launches of a kind, whatever the time
};

/// main memory (read, copy) and tensor cores (bf16, by mma.sync); caches, f32 and int8 are not measured. Takes turns
/// with steps. Throws out_of_memory, device_lost.
Ceilings measure_ceilings(const std::shared_ptr<Engine>& engine, const CeilingsPlan& plan);

}  // namespace llminfer::cuda
