// Earlier values of a sampler's state, one a token, for rollback.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <vector>

namespace llminfer::runtime {

/// Room for `capacity` entries is taken at construction and kept by copies.
template <class State>
class UndoLog {
 public:
  UndoLog(int capacity, std::pmr::memory_resource* memory) : entries_(memory) {
    entries_.reserve(static_cast<std::size_t>(capacity));
  }
  UndoLog(const UndoLog& other) : entries_(other.entries_.get_allocator()) {
    entries_.reserve(other.entries_.capacity());
    entries_.assign(other.entries_.begin(), other.entries_.end());
  }
  UndoLog& operator=(const UndoLog&) = delete;

  void push(const State& before) { entries_.push_back(before); }
  /// Sets `state` to what it was before the last `count` pushes, and forgets these.
  void undo(int count, State& state) noexcept {
    const std::size_t steps = std::min(entries_.size(), static_cast<std::size_t>(count));
    if (steps == 0) return;
    state = entries_[entries_.size() - steps];
    entries_.resize(entries_.size() - steps);
  }

 private:
  std::pmr::vector<State> entries_;
};

}  // namespace llminfer::runtime
