// Who touched which bytes of global memory in one launch: races between blocks, and the different sectors.
//
// Places are 2 bytes wide. Plain accesses of two blocks to one place, one of them a write, are a race unless the second
// block has learned of the first through an atomic that the first made after a fence. A sector of 32 bytes that is only
// touched as a whole has one mark, another one a mark for each of its places.
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
  /// `early`: it may begin before the last one is complete, whose marks are asked for.
  void start_launch(bool early = false, std::uint32_t blocks = 0);
  /// Whether the last launch wrote to the sector, or (`any`) touched it at all.
  bool touched_before(std::uint64_t sector, bool any);
  std::uint64_t unique_sectors() const noexcept { return unique_sectors_; }

  enum class Access : std::uint8_t { read, write, atomic };
  /// Who accesses: a block, counted from 0, and how often it (or the warp of it) arrived at barriers of its cluster.
  struct Who {
    std::uint32_t block = 0, arrived = 0;
  };
  /// Places are bits, the lowest the first. False: a race.
  bool access(Who who, std::uint64_t sector, std::uint32_t places, Access access);
  /// Whether it is the first time in this launch.
  bool count_sector(std::uint64_t sector);

  /// An atomic of `block` on a place: it learns what was released there, and releases what it knows if `fenced`.
  void synchronise(Who who, std::uint64_t address, bool fenced);
  /// The blocks of a cluster met at its barrier number `barrier`: all know what each did before.
  void meet(const std::vector<std::uint32_t>& blocks, std::uint32_t barrier);

 private:
  static constexpr std::uint32_t many = ~0U;
  static constexpr std::uint32_t by_atomic = ~0U - 1;
  static constexpr std::size_t sectors_of_page = 128;
  static constexpr std::size_t places_of_sector = 16;
  struct Mark {
    std::uint32_t writer = 0;  // block + arrivals * blocks + 1
    std::uint32_t reader = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  using Bits = std::array<std::uint32_t, sectors_of_page / 32>;
  struct Page {
    std::uint64_t launch = 0;
    std::array<Mark, sectors_of_page> sectors{};
    std::unique_ptr<std::array<Mark, sectors_of_page * places_of_sector>> places{};
    Bits split{};  // sectors whose places have marks of their own
    Bits seen{};
    Bits written_before{};  // by the last launch, if this one is early
    Bits touched_before{};
  };
  Page& page(std::uint64_t number);
  void keep_marks(Page& page) const;
  bool apply(Mark& mark, std::uint32_t me, Access access) const;
  bool ordered(std::uint32_t me, std::uint32_t before) const;
  std::uint32_t block_of(std::uint32_t mark) const noexcept { return (mark - 1) % blocks_; }
  void add(std::unordered_set<std::uint32_t>& to, Who who) const;

  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::array<Recent, 64> recent_{};
  std::uint64_t launch_ = 0;
  bool early_ = false;
  std::uint32_t blocks_ = ~0U;  // of the launch
  std::uint64_t unique_sectors_ = 0;
  std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> known_;     // by block
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint32_t>> released_;  // by address
};

}  // namespace ptxsim
