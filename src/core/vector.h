// std::vector whose storage is counted by a Memory: for the larger tables of the library (vocabularies, histories).
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/memory.h"

namespace llminfer::core {

/// Takes from a Memory, which it keeps alive; from operator new while it has none (a container made before its Memory
/// is known). Copies, moves and swaps of a container take the allocator along.
template <class T>
class Allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  Allocator() noexcept = default;
  Allocator(std::shared_ptr<Memory> memory) noexcept
      : memory_(std::move(memory)) {}  // NOLINT(google-explicit-constructor)
  template <class U>
  Allocator(const Allocator<U>& other) noexcept : memory_(other.memory()) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    const std::size_t bytes = array_bytes(count, sizeof(T));  // NOLINT(bugprone-sizeof-expression): T may be a pointer
    if (memory_ == nullptr) return std::allocator<T>().allocate(count);
    return static_cast<T*>(memory_->allocate(bytes, alignof(T)));
  }
  void deallocate(T* pointer, std::size_t count) noexcept {
    if (memory_ == nullptr) {
      std::allocator<T>().deallocate(pointer, count);
    } else {
      memory_->deallocate(pointer, count * sizeof(T), alignof(T));  // NOLINT(bugprone-sizeof-expression): as above
    }
  }
  const std::shared_ptr<Memory>& memory() const noexcept { return memory_; }
  friend bool operator==(const Allocator& a, const Allocator& b) noexcept { return a.memory_ == b.memory_; }

 private:
  std::shared_ptr<Memory> memory_;
};

template <class T>
using Vector = std::vector<T, Allocator<T>>;

}  // namespace llminfer::core
