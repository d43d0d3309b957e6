// The simulated GPU behind the stand-in for libcudart: what a test sets and reads. The stand-in is linked in place of
// the real library; programs that nvcc compiled run on it unchanged, as far as they use the functions that are here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interpreter/launch.h"

namespace ptxsim {

/// The numbers of a chip that programs ask for.
struct Chip {
  const char* name = "simulated sm_80";
  int major = 8, minor = 0;
  int multiprocessors = 108;
  int threads_per_multiprocessor = 2048;
  int registers_per_multiprocessor = 65536;
  int shared_per_multiprocessor = 164 * 1024;
  int shared_per_block_optin = 163 * 1024;
  std::size_t memory = std::size_t{16} << 30;
};

/// With clusters. PTX of compute_90 is taken where a fat binary has it.
constexpr Chip h200_chip{"simulated sm_90", 9, 0, 132, 2048, 65536, 228 * 1024, 227 * 1024};

/// One kernel launch that ran.
struct LaunchRecord {
  std::string kernel{};
  LaunchConfig config{};
  Counters counters{};
  double seconds = 0;  ///< that the interpreter took
};

/// What programs did besides launching.
struct CallCounts {
  std::uint64_t launches = 0;
  std::uint64_t graph_launches = 0;
  std::uint64_t allocations = 0;  ///< cudaMalloc and its like, device and pinned host memory
  std::uint64_t blocking = 0;     ///< calls that wait: synchronise, cudaMemcpy, copies of memory that is not pinned
  std::uint64_t copies = 0;
  std::uint64_t lane_instructions = 0;  ///< of all launches
  double seconds = 0;                   ///< that the interpreter took for them
};

struct SimulatedDevice {
  Options options{};
  Chip chip{};
  std::vector<Finding> findings{};       ///< of all launches
  std::vector<LaunchRecord> launches{};  ///< only while record_launches
  bool record_launches = false;
  CallCounts calls{};
  int fail_allocation = 0;  ///< n > 0: the n-th allocation from now fails
  bool lost = false;        ///< every call fails from now on, as after a fault of the hardware
};

/// The device of this process. One thread at a time.
SimulatedDevice& simulated_device();

}  // namespace ptxsim
