#include "core/fast_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace llminfer::core {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t stripe_bytes = 32;
constexpr std::uint64_t prime1 = 0x9e3779b185ebca87u, prime2 = 0xc2b2ae3d27d4eb4fu, prime3 = 0x165667b19e3779f9u,
                        prime4 = 0x85ebca77c2b2ae63u, prime5 = 0x27d4eb2f165667c5u;

template <class Word>
std::uint64_t load(const std::byte* bytes) noexcept {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint64_t mix(std::uint64_t lane, std::uint64_t word) noexcept {
  return std::rotl(lane + word * prime2, 31) * prime1;
}

void absorb(std::array<std::uint64_t, 4>& lanes, const std::byte* stripe) noexcept {
  for (std::size_t i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], load<std::uint64_t>(stripe + 8 * i));
}

std::uint64_t join(const std::array<std::uint64_t, 4>& lanes) noexcept {
  std::uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ mix(0, lane)) * prime1 + prime4;
  return hash;
}

std::uint64_t add_rest(std::uint64_t hash, std::span<const std::byte> rest) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= rest.size(); i += 8) {
    hash = std::rotl(hash ^ mix(0, load<std::uint64_t>(rest.data() + i)), 27) * prime1 + prime4;
  }
  for (; i + 4 <= rest.size(); i += 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(rest.data() + i) * prime1), 23) * prime2 + prime3;
  }
  for (; i < rest.size(); ++i) hash = std::rotl(hash ^ (load<std::uint8_t>(rest.data() + i) * prime5), 11) * prime1;
  return hash;
}

}  // namespace

FastHasher::FastHasher(std::uint64_t seed) noexcept
    : seed_(seed), lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1} {}

void FastHasher::update(std::span<const std::byte> bytes) noexcept {
  const std::size_t held = length_ % stripe_bytes;
  length_ += bytes.size();
  if (held > 0) {
    const std::size_t take = std::min(stripe_bytes - held, bytes.size());
    std::copy_n(bytes.begin(), take, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    if (held + take < stripe_bytes) return;
    absorb(lanes_, pending_.data());
    bytes = bytes.subspan(take);
  }
  std::array<std::uint64_t, 4> lanes = lanes_;
  for (; bytes.size() >= stripe_bytes; bytes = bytes.subspan(stripe_bytes)) absorb(lanes, bytes.data());
  lanes_ = lanes;
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::uint64_t FastHasher::finish() const noexcept {
  std::uint64_t hash = length_ < stripe_bytes ? seed_ + prime5 : join(lanes_);
  hash = add_rest(hash + length_, std::span(pending_).first(length_ % stripe_bytes));
  hash = (hash ^ (hash >> 33)) * prime2;
  hash = (hash ^ (hash >> 29)) * prime3;
  return hash ^ (hash >> 32);
}

std::uint64_t fast_hash(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  FastHasher hasher(seed);
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace llminfer::core
