// Live allocations of the simulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ptxsim {

/// Addresses are the host's. One thread at a time.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  /// Aligned to 256, filled with bytes 0xff (NaN in every float format). Null when the system has none or above the
  /// limit.
  void* allocate(std::size_t bytes);
  /// False: no allocation starts there.
  bool release(void* pointer);
  /// Memory that others own: variables of a module.
  void add(const void* pointer, std::size_t bytes);
  void remove(const void* pointer);

  /// Whether [address, address + bytes) lies within one allocation.
  bool contains(std::uint64_t address, std::size_t bytes) const noexcept;
  /// The allocation around an address; empty where there is none.
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  Range range_of(std::uint64_t address) const noexcept;
  std::size_t used() const noexcept { return used_; }
  std::size_t limit() const noexcept { return limit_; }
  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }
  std::uint64_t allocations() const noexcept { return allocations_; }

 private:
  struct Block {
    std::uint64_t end = 0;
    bool owned = false;
  };
  std::map<std::uint64_t, Block> blocks_;
  mutable std::uint64_t last_begin_ = 1;
  mutable std::uint64_t last_end_ = 0;
  std::size_t used_ = 0;
  std::size_t limit_ = std::size_t{16} << 30;
  std::uint64_t allocations_ = 0;
};

}  // namespace ptxsim
