#include "core/hash.h"

#include <algorithm>
#include <cstring>

namespace llminfer::core {
namespace {

using State = std::array<std::uint64_t, 4>;

void rounds(State& v, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
}

void absorb(State& v, std::uint64_t word) noexcept {
  v[3] ^= word;
  rounds(v, 2);
  v[0] ^= word;
}

std::uint64_t load_word(const std::byte* bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint64_t fold(const State& v) noexcept { return v[0] ^ v[1] ^ v[2] ^ v[3]; }

}  // namespace

Hasher::Hasher(HashKey key) noexcept
    : state_{key.k0 ^ 0x736f6d6570736575u,
             key.k1 ^ 0x646f72616e646f6du ^ 0xeeu,  // 0xee and the other constants below: the 128-bit variant
             key.k0 ^ 0x6c7967656e657261u, key.k1 ^ 0x7465646279746573u} {}

void Hasher::update(std::span<const std::byte> bytes) noexcept {
  std::size_t position = 0;
  const std::size_t held = length_ % 8;
  length_ += bytes.size();
  if (held > 0) {
    const std::size_t take = std::min<std::size_t>(8 - held, bytes.size());
    for (; position < take; ++position) {
      pending_ |= std::to_integer<std::uint64_t>(bytes[position]) << (8 * (held + position));
    }
    if (held + take < 8) return;
    absorb(state_, pending_);
    pending_ = 0;
  }
  for (; bytes.size() - position >= 8; position += 8) absorb(state_, load_word(bytes.data() + position));
  for (std::size_t i = 0; position < bytes.size(); ++i, ++position) {
    pending_ |= std::to_integer<std::uint64_t>(bytes[position]) << (8 * i);
  }
}

Hash128 Hasher::finish() const noexcept {
  State v = state_;
  absorb(v, (length_ << 56) | pending_);
  v[2] ^= 0xeeu;
  rounds(v, 4);
  const std::uint64_t low = fold(v);
  v[1] ^= 0xddu;
  rounds(v, 4);
  return {low, fold(v)};
}

Hash128 hash128(std::span<const std::byte> bytes, HashKey key) noexcept {
  Hasher hasher(key);
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace llminfer::core
