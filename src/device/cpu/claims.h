// Who does what of a phase, found while it runs: cores are not equally fast, for some are shared with others or made to
// save power, and a barrier waits for the slowest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/thread_pool.h"
#include "device/cpu/panel_layout.h"

namespace llminfer::cpu {

/// How many positions are taken at a time: multiples of `least`, `most` of them, or what is left of a share. Shares are
/// cut at multiples of `grain`. 0 < grain; least is a multiple of it, most of least.
struct ClaimSize {
  std::int64_t grain = 1;
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool own_only = false;  ///< the thread does not help others
  bool fixed = false;     ///< no thread does, and each takes its share at once; all must say the same

  /// Of so little that no share is more than one part, nothing is worth being taken over.
  ClaimSize for_all(std::int64_t total, int threads) const noexcept {
    ClaimSize size = *this;
    size.fixed = total <= least * threads;
    return size;
  }
};

/// Positions [0, total) of a phase, each taken by one thread. A thread begins with its share (core::share_of) and takes
/// half of what is left of it at a time, so that parts are long at first and short in the end; then it takes from what
/// others have left, in the same way.
///
/// A share has a cursor, on a line of its own: the number of a phase, and from where on nothing is taken yet. One with
/// another phase's number says that all is left, so that nobody needs to set cursors before a phase, and the share of a
/// thread that comes late is done by others. Behind the phase there must be a barrier.
class Claims {
 public:
  /// `cursors`: line_bytes for each thread. `phase`: 1 or more, and another one for each phase since forget(); total
  /// below 2^40.
  Claims(std::byte* cursors, std::uint32_t phase, int thread, int threads, std::int64_t total, ClaimSize size) noexcept
      : cursors_(cursors), phase_(phase & most_phase), thread_(thread), threads_(threads), total_(total), size_(size) {}

  /// Before the first phase, while no thread is in one.
  static void forget(std::byte* cursors, int threads) noexcept {
    for (int t = 0; t < threads; ++t) cursor(cursors, t).store(0, std::memory_order_relaxed);
  }

  /// What the thread does next; empty if nothing is left.
  core::Share next() noexcept {
    if (size_.fixed) {
      const bool first = helped_ == 0;
      helped_ = threads_;
      return first ? core::share_of(total_, thread_, threads_, size_.grain) : core::Share{};
    }
    for (const int last = size_.own_only ? 1 : threads_; helped_ < last; ++helped_) {
      const core::Share part = take((thread_ + helped_) % threads_);
      if (part.begin < part.end) return part;
    }
    return {};
  }

  /// Calls visit(part) for each part that the thread takes.
  template <class Visit>
  void each(Visit&& visit) noexcept {
    for (core::Share part = next(); part.begin < part.end; part = next()) visit(part);
  }

  /// Positions behind the last part that the thread takes next, if nobody comes before it.
  std::int64_t behind() const noexcept { return behind_; }

 private:
  static constexpr int phase_shift = 40;
  static constexpr std::uint32_t most_phase = (1U << (64 - phase_shift)) - 1;
  static constexpr std::uint64_t most_position = (std::uint64_t{1} << phase_shift) - 1;

  static std::atomic_ref<std::uint64_t> cursor(std::byte* cursors, int thread) noexcept {
    std::byte* line = cursors + line_bytes * static_cast<std::size_t>(thread);
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(line));
  }

  /// Nothing is ordered by a cursor: what threads write for each other is for behind the barrier.
  core::Share take(int from) noexcept {
    const core::Share share = core::share_of(total_, from, threads_, size_.grain);
    const std::atomic_ref<std::uint64_t> place = cursor(cursors_, from);
    std::uint64_t seen = place.load(std::memory_order_relaxed);
    core::Share part;
    do {
      const bool begun = seen >> phase_shift == phase_;
      part.begin = begun ? static_cast<std::int64_t>(seen & most_position) : share.begin;
      if (part.begin >= share.end) return {};
      part.end = std::min(share.end, part.begin + length_of_part(share.end - part.begin));
    } while (!place.compare_exchange_weak(
        seen, std::uint64_t{phase_} << phase_shift | static_cast<std::uint64_t>(part.end), std::memory_order_relaxed));
    behind_ = helped_ == 0 ? share.end - part.end : 0;
    return part;
  }

  std::int64_t length_of_part(std::int64_t left) const noexcept {
    const std::int64_t aim = threads_ == 1 ? left : left / 2;
    return std::min((aim / size_.least + 1) * size_.least, size_.most);
  }

  std::byte* cursors_;
  std::uint32_t phase_;
  int thread_;
  int threads_;
  std::int64_t total_;
  ClaimSize size_;
  int helped_ = 0;
  std::int64_t behind_ = 0;
};

}  // namespace llminfer::cpu
