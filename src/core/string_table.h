// Many short strings in two allocations: a vocabulary of 262,144 tokens must not cost that many mallocs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/vector.h"

namespace llminfer::core {

/// Append-only list of byte strings. Views stay valid until the next push_back.
class StringTable {
 public:
  StringTable() : StringTable(nullptr) {}
  /// `memory`: where the bytes come from; null: the heap.
  explicit StringTable(const std::shared_ptr<Memory>& memory)
      : memory_(memory), bytes_(memory), offsets_(1, 0, memory) {}

  void reserve(std::size_t count, std::size_t bytes) {
    offsets_.reserve(count + 1);
    bytes_.reserve(bytes);
  }
  void push_back(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    offsets_.push_back(bytes_.size());
  }
  std::size_t size() const noexcept { return offsets_.size() - 1; }
  const std::shared_ptr<Memory>& memory() const noexcept { return memory_; }
  bool empty() const noexcept { return size() == 0; }
  std::string_view operator[](std::size_t index) const noexcept {
    return {bytes_.data() + offsets_[index], static_cast<std::size_t>(offsets_[index + 1] - offsets_[index])};
  }

 private:
  std::shared_ptr<Memory> memory_;
  Vector<char> bytes_;
  Vector<std::uint64_t> offsets_;
};

}  // namespace llminfer::core
