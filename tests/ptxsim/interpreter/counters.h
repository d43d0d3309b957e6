// What a launch did, in numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interpreter/module.h"

namespace ptxsim {

/// Of one load or store instruction.
struct AccessCounts {
  std::uint64_t requests = 0;    ///< warp instructions
  std::uint64_t lane_bytes = 0;  ///< bytes that lanes asked for
  std::uint64_t sectors = 0;     ///< global: 32-byte sectors; shared: wavefronts
  std::uint64_t ideal = 0;       ///< shared: wavefronts without conflicts
};

/// Of the global memory behind one pointer among the parameters: loads and copies.
struct ArgumentCounts {
  std::uint32_t parameter = 0;       ///< place in the parameters, bytes
  std::uint64_t requests = 0;        ///< warp instructions
  std::uint64_t lane_bytes = 0;      ///< bytes that lanes asked for
  std::uint64_t sectors = 0;         ///< 32-byte sectors of the requests
  std::uint64_t wide_sectors = 0;    ///< of these: by loads and copies of 16 bytes a lane
  std::uint64_t unique_sectors = 0;  ///< that nothing in the launch had asked for before
};

/// Of one source line.
struct LineCounts {
  std::string source{};
  std::uint64_t lane_instructions = 0;
  std::uint64_t global_sectors = 0;
  std::uint64_t shared_wavefronts = 0;
};

struct Counters {
  std::uint64_t warp_instructions = 0;
  std::uint64_t lane_instructions = 0;
  std::array<std::uint64_t, op_classes> lanes_by_class{};
  std::uint64_t global_loads = 0;   ///< requests
  std::uint64_t global_stores = 0;  ///< requests
  std::uint64_t global_bytes = 0;   ///< asked for by lanes
  std::uint64_t global_sectors = 0;
  std::uint64_t unique_sectors = 0;     ///< different ones in the launch: what must come from DRAM at least
  std::uint64_t global_wide_bytes = 0;  ///< of global_bytes: by accesses of 16 bytes a lane
  std::uint64_t shared_requests = 0;
  std::uint64_t shared_wavefronts = 0;
  std::uint64_t shared_ideal = 0;
  std::uint64_t cluster_bytes = 0;  ///< asked for in shared memory of other blocks
  std::uint64_t mma = 0;            ///< warp instructions
  std::uint64_t flops = 0;          ///< of tensor cores and f32 arithmetic; an fma is two
  std::uint64_t atomics = 0;
  std::uint64_t barriers = 0;
  std::vector<ArgumentCounts> arguments{};  ///< by their place in the parameters
  std::vector<LineCounts> lines{};          ///< by falling lane_instructions; only where nvcc gave lines
};

}  // namespace ptxsim
