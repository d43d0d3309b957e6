// A fast 64-bit hash (XXH64, by Yann Collet) for checksums and for telling contents apart. Not secure: whoever chooses
// the input can make two that collide. Where a user does, see hash.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace llminfer::core {

/// Hashes a stream of bytes; how the bytes are cut into updates does not matter. Allocates nothing.
class FastHasher {
 public:
  explicit FastHasher(std::uint64_t seed = 0) noexcept;

  void update(std::span<const std::byte> bytes) noexcept;
  /// The object representation of a value.
  template <class T>
  void update_value(const T& value) noexcept {
    static_assert(std::has_unique_object_representations_v<T>, "padding would be hashed");
    update(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  /// The hash of what was given so far. The FastHasher is unchanged and can go on.
  std::uint64_t finish() const noexcept;

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, 32> pending_{};  // the last length_ % 32 bytes
  std::uint64_t length_ = 0;             // bytes so far
};

/// Hash of one piece of memory.
std::uint64_t fast_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

}  // namespace llminfer::core
