// A keyed 128-bit hash (SipHash-2-4 with 128 bits out, by Aumasson and Bernstein) for keys that must not collide even
// where a user chooses the input: with a secret key, nobody can construct two prompts that share one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace llminfer::core {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

/// For unordered containers: the bits are uniform already.
struct Hash128Bucket {
  std::size_t operator()(const Hash128& hash) const noexcept { return static_cast<std::size_t>(hash.low); }
};

/// 16 secret bytes, as two little-endian words.
struct HashKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

/// Hashes a stream of bytes; how the bytes are cut into updates does not matter. Allocates nothing. A copy continues
/// from the same state: hash a common prefix once.
class Hasher {
 public:
  explicit Hasher(HashKey key = {}) noexcept;

  void update(std::span<const std::byte> bytes) noexcept;

  /// The object representation of a value, or of values. Little-endian, so that hashes agree between machines.
  template <class T>
  void update_value(const T& value) noexcept {
    static_assert(std::has_unique_object_representations_v<T>, "padding would be hashed");
    update(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <class T>
  void update_values(std::span<const T> values) noexcept {
    static_assert(std::has_unique_object_representations_v<T>, "padding would be hashed");
    update(std::as_bytes(values));
  }

  /// The hash of what was given so far. The Hasher is unchanged and can go on.
  Hash128 finish() const noexcept;

 private:
  static_assert(std::endian::native == std::endian::little);

  std::array<std::uint64_t, 4> state_;
  std::uint64_t length_ = 0;   // bytes so far
  std::uint64_t pending_ = 0;  // the last length_ % 8 bytes, lowest first
};

/// Hash of one piece of memory.
Hash128 hash128(std::span<const std::byte> bytes, HashKey key = {}) noexcept;

}  // namespace llminfer::core
