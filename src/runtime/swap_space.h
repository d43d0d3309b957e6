// Memory for the pages of sequences that lost theirs to others, so that they need not be computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "runtime/clock.h"
#include "runtime/page_pool.h"
#include "runtime/sequence.h"

namespace llminfer::runtime {

/// Which costs less: to copy pages out and back, or to compute their tokens again. Both speeds are measured on the way,
/// as running means.
class SwapCost {
 public:
  void saw_prefill(std::int64_t tokens, Clock::duration time) noexcept {
    if (tokens > 0 && time.count() > 0) mean(seconds_per_token_, seconds(time) / static_cast<double>(tokens));
  }
  void saw_copy(std::uint64_t bytes, Clock::duration time) noexcept {
    if (bytes > 0 && time.count() > 0) mean(seconds_per_byte_, seconds(time) / static_cast<double>(bytes));
  }
  /// Of `tokens` computed tokens that are `bytes` long.
  bool swap_is_cheaper(std::int64_t tokens, std::uint64_t bytes) const noexcept {
    return 2 * static_cast<double>(bytes) * seconds_per_byte_ < static_cast<double>(tokens) * seconds_per_token_;
  }

 private:
  static double seconds(Clock::duration time) noexcept { return std::chrono::duration<double>(time).count(); }
  static void mean(double& value, double sample) noexcept { value += (sample - value) / 8; }

  double seconds_per_token_ = 1e-4;  // until something is measured: a small model, slow memory
  double seconds_per_byte_ = 1e-9;
};

/// Of one pool, whose mutex is held in keep() and bring_back(); otherwise the engine's thread alone uses it, but for
/// reserve() (any thread). All memory is taken at construction.
class SwapSpace {
 public:
  /// `bytes` are shared out among the state groups as the pool's are. 0: nothing ever fits.
  SwapSpace(Pool& pool, std::size_t bytes, const std::shared_ptr<core::Memory>& memory);

  /// What a sequence has here. Belongs to its request.
  struct Kept {
    std::int32_t computed = 0;                        ///< tokens; 0: nothing is kept
    std::vector<std::int32_t> given_back{};           ///< per group, see Sequence
    std::vector<core::Vector<std::int32_t>> slots{};  ///< per group, in the order of the pages
  };
  /// Room for a sequence of that context, so that keep() allocates nothing. Nothing at all when nothing ever fits.
  void reserve(Kept& kept, std::int32_t context) const;

  /// Whether the computed pages of the sequence would fit now.
  bool fits(const Sequence& sequence) const noexcept;
  /// Whether they would if nothing else was kept.
  bool would_fit(const Sequence& sequence) const noexcept;
  std::uint64_t bytes(const Sequence& sequence) const noexcept;

  /// Copies the computed pages here and evicts the sequence. False: the device could not; nothing is kept.
  bool keep(Sequence& sequence, Kept& kept) noexcept;
  /// The other way, for a sequence without pages. On a shortage nothing has changed but that pages of the prefix cache
  /// may be gone; a device that fails leaves the sequence uncomputed and nothing kept.
  Shortage bring_back(Sequence& sequence, Kept& kept) noexcept;
  void drop(Kept& kept) noexcept;

 private:
  std::int64_t pages(const Sequence& sequence, std::size_t group) const noexcept;
  std::span<std::byte> slot(std::size_t group, std::int32_t index) noexcept;

  Pool& pool_;
  std::vector<PagePool> slots_;  // per group
  std::vector<std::size_t> page_bytes_, offsets_;
  core::Buffer data_;
};

}  // namespace llminfer::runtime
