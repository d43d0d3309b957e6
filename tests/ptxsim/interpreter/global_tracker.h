// Who touched which bytes of global memory in one launch: races between blocks, and the different sectors.
//
// Places are 2 bytes wide. Plain accesses of two blocks to one place, one of them a write, are a race unless the second
// block has learned of the first through an atomic that the first made after a fence.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ptxsim {

class GlobalTracker {
 public:
  void start_launch();
  std::uint64_t unique_sectors() const noexcept { return unique_sectors_; }

  enum class Access : std::uint8_t { read, write, atomic };
  /// False: a race. `block` counts from 0.
  bool access(std::uint32_t block, std::uint64_t address, int bytes, Access access);
  void count_sector(std::uint64_t sector);

  /// An atomic of `block` on a place: it learns what was released there, and releases what it knows if `fenced`.
  void synchronise(std::uint32_t block, std::uint64_t address, bool fenced);

 private:
  static constexpr std::uint32_t many = ~0U;
  static constexpr std::uint32_t by_atomic = ~0U - 1;
  struct Page {
    std::uint64_t launch = 0;
    std::array<std::uint32_t, 2048> writer{};  // block + 1
    std::array<std::uint32_t, 2048> reader{};
    std::array<std::uint32_t, 4> sectors{};
  };
  Page& page(std::uint64_t number);
  bool ordered(std::uint32_t block, std::uint32_t before) const;

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t last_number_ = ~std::uint64_t{0};
  Page* last_ = nullptr;
  std::uint64_t launch_ = 0;
  std::uint64_t unique_sectors_ = 0;
  std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> known_;     // by block
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint32_t>> released_;  // by address
};

}  // namespace ptxsim
