// From strings to ids: open addressing over views whose bytes belong to someone else (a StringTable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/vector.h"

namespace llminfer::text {

/// 64 bits of hash, eight bytes a step; the same on every run.
inline std::uint64_t hash_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = text.size() * multiplier;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * multiplier;
    hash ^= hash >> 32;
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, left);
    hash = (hash ^ word) * multiplier;
  }
  hash ^= hash >> 29;
  hash *= 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 32;
}

/// Each string once; a second insertion of an equal one changes nothing.
class StringMap {
 public:
  static constexpr std::int32_t none = -1;

  explicit StringMap(std::size_t expected = 0, const std::shared_ptr<core::Memory>& memory = nullptr) : slots_(memory) {
    rehash(expected * 2);
  }

  /// Keeps the view: its bytes must outlive the map. False: an equal string was there already.
  bool insert(std::string_view key, std::int32_t id) {
    if ((count_ + 1) * 2 > slots_.size()) rehash(slots_.size() * 2);
    Slot& slot = slots_[place(key, hash_bytes(key))];
    if (slot.id != none) return false;
    slot = {key.data(), static_cast<std::uint32_t>(key.size()), id};
    ++count_;
    return true;
  }

  /// The id, or none.
  std::int32_t find(std::string_view key) const noexcept { return slots_[place(key, hash_bytes(key))].id; }

  std::size_t size() const noexcept { return count_; }

 private:
  struct Slot {
    const char* data = nullptr;
    std::uint32_t size = 0;
    std::int32_t id = none;
  };

  std::size_t place(std::string_view key, std::uint64_t hash) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(hash) & mask;
    while (slots_[at].id != none && std::string_view(slots_[at].data, slots_[at].size) != key) at = (at + 1) & mask;
    return at;
  }

  void rehash(std::size_t wanted) {
    std::size_t capacity = 16;
    while (capacity < wanted) capacity *= 2;
    core::Vector<Slot> old(capacity, Slot{}, slots_.get_allocator());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id == none) continue;
      const std::string_view key(slot.data, slot.size);
      slots_[place(key, hash_bytes(key))] = slot;
    }
  }

  core::Vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace llminfer::text
