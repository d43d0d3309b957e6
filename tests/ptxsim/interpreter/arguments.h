// Which pointer among a launch's parameters an address belongs to, and what was asked for by way of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interpreter/counters.h"
#include "interpreter/device_memory.h"

namespace ptxsim {

/// A word of the parameters that lies in an allocation is a pointer; an address belongs to the nearest pointer below
/// it in the same allocation, or else to the lowest one there. Pointers with the same value are one.
class Arguments {
 public:
  Arguments(std::span<const std::byte> parameters, const DeviceMemory& memory);
  /// Null for memory that no parameter points to, as variables of a module.
  ArgumentCounts* of(std::uint64_t address) noexcept;
  /// By their place in the parameters.
  std::vector<ArgumentCounts> counts() const;

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;
    std::size_t argument = 0;
  };
  std::vector<Range> ranges_;  // ascending
  std::vector<ArgumentCounts> counts_;
};

}  // namespace ptxsim
