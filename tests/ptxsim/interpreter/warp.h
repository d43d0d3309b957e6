// 32 lanes that run together: the lanes with the lowest program counter go first, so that diverged lanes meet again
// where their paths join.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interpreter/module.h"

namespace ptxsim {

class Block;

/// A cp.async of one lane that has not been waited for.
struct PendingCopy {
  std::uint32_t lane = 0;
  std::uint32_t group = 0;  ///< number of the commit that it belongs to
  std::uint32_t to = 0;     ///< shared memory
  std::uint32_t bytes = 0;
  std::uint32_t from_bytes = 0;  ///< the rest is zero
  std::uint64_t from = 0;
  bool done = false;  ///< the bytes are there already (AsyncMode::early)
};

class Warp {
 public:
  /// `cluster`: at a barrier of the cluster.
  enum class State : std::uint8_t { ready, barrier, cluster, done };

  Warp(Block& block, std::uint32_t index, std::uint32_t threads);
  Warp(const Warp&) = delete;
  Warp& operator=(const Warp&) = delete;
  Warp(Warp&&) = default;
  Warp& operator=(Warp&&) = delete;
  ~Warp() = default;

  /// Runs until a barrier, the end, a yield, or `budget` instructions; returns how many ran.
  std::uint64_t run(std::uint64_t budget);

  template <class T>
  T* lanes(const Operand& o) noexcept {
    return reinterpret_cast<T*>(files_[o.file] + o.at);
  }
  std::uint32_t predicate(const Operand& o) const noexcept;
  void set_predicate(const Operand& o, std::uint32_t value, std::uint32_t mask) noexcept;
  /// The low bits of a register of any width.
  std::uint64_t value(const Operand& o, std::uint32_t lane) noexcept;
  void set_value(const Operand& o, std::uint32_t lane, std::uint64_t v) noexcept;

  Block& block() noexcept { return *block_; }
  std::uint32_t index() const noexcept { return index_; }
  std::uint32_t rank() const noexcept { return rank_; }  ///< of the block in its cluster
  std::uint32_t alive() const noexcept { return alive_; }
  std::uint32_t active() const noexcept { return active_; }  ///< lanes at this instruction, before its guard
  State state() const noexcept { return state_; }
  void release() noexcept { state_ = State::ready; }
  std::byte* local(std::uint32_t lane) noexcept;
  /// Where the first lane that still runs stands.
  std::int32_t position() const noexcept;

  std::vector<PendingCopy>& copies() noexcept { return copies_; }
  std::array<std::uint32_t, 32>& commits() noexcept { return commits_; }
  std::uint32_t warp_time = 0;   ///< synchronisations of the warp so far
  std::uint32_t serial = 0;      ///< instructions so far
  bool waited_for_grid = false;  ///< it, or one whose barrier it passed, waited for the launch ahead of this one
  /// At barriers of the cluster: how often it arrived and waited; how many of them it, or one whose barrier it passed,
  /// knows to be over.
  std::uint32_t cluster_arrived = 0, cluster_waited = 0, cluster_known = 0;
  bool unfenced = false;  ///< it, or one whose barrier it passed, wrote to global memory after its last fence

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  void set_specials(std::uint32_t threads);
  void diverge(const Instruction& i, std::uint32_t taken, std::int32_t pc);
  void place(std::uint32_t mask, std::int32_t pc) noexcept;

  Block* block_;
  std::uint32_t index_;
  std::uint32_t rank_;
  std::uint32_t alive_ = 0;
  std::uint32_t active_ = 0;
  State state_ = State::ready;
  std::array<std::int32_t, 32> pc_{};
  std::vector<Line> registers_;
  std::vector<std::uint32_t> predicates_;
  std::vector<std::byte> local_;
  std::byte* files_[2];
  std::vector<PendingCopy> copies_;
  std::array<std::uint32_t, 32> commits_{};
};

}  // namespace ptxsim
