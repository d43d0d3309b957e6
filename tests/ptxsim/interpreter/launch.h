// Runs a kernel over a grid: the interpreter's entrance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interpreter/arguments.h"
#include "interpreter/counters.h"
#include "interpreter/device_memory.h"
#include "interpreter/findings.h"
#include "interpreter/global_tracker.h"
#include "interpreter/module.h"

namespace ptxsim {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const noexcept { return std::uint64_t{x} * y * z; }
};

struct LaunchConfig {
  Dim3 grid{};
  Dim3 block{};
  std::uint32_t dynamic_shared = 0;  ///< bytes
  Dim3 cluster{};                    ///< blocks that run together; divides the grid
};

/// The portable limit of a cluster.
constexpr std::uint32_t max_cluster = 8;

/// Which warp and block goes first. All orders are legal, so that all must give the same bits.
enum class Order : std::uint8_t { ascending, descending, seeded };

/// When an asynchronous copy happens: as soon as it is asked for, or as late as the program may rely on it.
enum class AsyncMode : std::uint8_t { early, late };

struct Options {
  Order order = Order::ascending;
  std::uint64_t seed = 1;  ///< of Order::seeded
  AsyncMode async = AsyncMode::late;
  bool check_races = true;               ///< shared and global
  bool count_accesses = true;            ///< sectors, wavefronts, lines
  bool early = false;                    ///< it may begin before the launch ahead of it is complete
  int resident_blocks = 4;               ///< blocks that make progress together: those that others may wait for
  std::uint64_t patience = 20'000'000;   ///< warp instructions of a block before another one gets its turn
  std::uint64_t limit = 20'000'000'000;  ///< warp instructions of a launch, then it is a deadlock
};

struct LaunchResult {
  Counters counters{};
  std::vector<Finding> findings{};
  bool completed = false;  ///< false: the launch was given up
};

/// What the blocks of one launch share.
struct LaunchState {
  const Kernel& kernel;
  const LaunchConfig& config;
  const Options& options;
  DeviceMemory& memory;
  GlobalTracker& tracker;
  Findings findings;
  Arguments arguments;
  std::vector<std::byte> parameters{};
  std::vector<std::uint64_t> warp_runs{};  ///< per instruction
  std::vector<std::uint64_t> lane_runs{};
  std::vector<AccessCounts> accesses{};
  std::uint64_t instructions = 0;
  std::uint64_t barriers = 0;
  std::uint64_t cluster_bytes = 0;

  std::size_t index_of(const Instruction& i) const noexcept {
    return static_cast<std::size_t>(&i - kernel.code.data());
  }
  /// Reports and gives the launch up.
  [[noreturn]] void abort(Check check, const Instruction& at, std::string text);
};

/// `parameters`: the kernel's parameter buffer, kernel.parameter_bytes long. Errors are findings, never exceptions.
LaunchResult launch(const Kernel& kernel, const LaunchConfig& config, std::span<const std::byte> parameters,
                    DeviceMemory& memory, GlobalTracker& tracker, const Options& options);

}  // namespace ptxsim
