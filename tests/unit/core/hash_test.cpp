#include "core/hash.h"

#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

#include "catch.h"
#include "core/fast_hash.h"

using namespace llminfer::core;

namespace {

constexpr HashKey counting_key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// The 16 bytes of the hash in order, as test vectors are written.
std::string hex(const Hash128& hash) {
  std::string text;
  for (const std::uint64_t word : {hash.low, hash.high}) {
    for (int byte = 0; byte < 8; ++byte) {
      char pair[3];
      std::snprintf(pair, sizeof pair, "%02X", static_cast<unsigned>((word >> (8 * byte)) & 0xff));
      text += pair;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("SipHash-2-4-128 of 0, 1, 2 ... under the key 0, 1, 2 ... (values from OpenSSL's implementation)") {
  const struct {
    std::size_t length;
    const char* hash;
  } vectors[] = {
      {0, "A3817F04BA25A8E66DF67214C7550293"},  {1, "DA87C1D86B99AF44347659119B22FC45"},
      {2, "8177228DA4A45DC7FCA38BDEF60AFFE4"},  {7, "A1F1EBBED8DBC153C0B84AA61FF08239"},
      {8, "3B62A9BA6258F5610F83E264F31497B4"},  {9, "264499060AD9BAABC47F8B02BB6D71ED"},
      {15, "5493E99933B0A8117E08EC0F97CFC3D9"}, {16, "6EE2A4CA67B054BBFD3315BF85230577"},
      {31, "2939B0183223FAFC1723DE4F52C43D35"}, {63, "5150D1772F50834A503E069A973FBD7C"},
  };
  for (const auto& vector : vectors) CHECK(hex(hash128(counting_bytes(vector.length), counting_key)) == vector.hash);
}

TEST_CASE("how a stream is cut does not matter") {
  const std::vector<std::byte> bytes = counting_bytes(61);
  const Hash128 whole = hash128(bytes, counting_key);
  const std::span<const std::byte> all = bytes;
  int wrong = 0;
  for (std::size_t a = 0; a <= bytes.size(); ++a) {
    for (std::size_t b = a; b <= bytes.size(); ++b) {
      Hasher hasher(counting_key);
      hasher.update(all.first(a));
      hasher.update(all.subspan(a, b - a));
      hasher.update(all.subspan(b));
      wrong += hasher.finish() == whole ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a copy continues a common prefix; finish changes nothing") {
  const std::vector<std::int32_t> tokens = {5, 6, 7, 8, 9};
  Hasher prefix;
  prefix.update_values(std::span<const std::int32_t>(tokens).first(3));
  const Hash128 before = prefix.finish();
  Hasher longer = prefix;
  longer.update_value(std::int32_t{8});
  longer.update_value(std::int32_t{9});
  CHECK(longer.finish() == hash128(std::as_bytes(std::span<const std::int32_t>(tokens))));
  CHECK(prefix.finish() == before);
  CHECK_FALSE(longer.finish() == before);
}

TEST_CASE("keys, lengths and zero bytes all count") {
  std::unordered_set<Hash128, Hash128Bucket> seen;
  const std::vector<std::byte> zeros(64);
  for (std::size_t length = 0; length <= zeros.size(); ++length) {
    for (std::uint64_t key = 0; key < 4; ++key) {
      const HashKey keys = {key & 1, key >> 1};
      CHECK(seen.insert(hash128(std::span<const std::byte>(zeros).first(length), keys)).second);
    }
  }
}

TEST_CASE("XXH64 of 0, 1, 2 ... (values from xxhsum), however the stream is cut") {
  const struct {
    std::size_t length;
    std::uint64_t hash;
  } known[] = {{0, 0xef46db3751d8e999u},  {1, 0xe934a84adb052768u},   {3, 0xe5c7bb4533bc65ddu},
               {4, 0xffced8604453cc1eu},  {8, 0x884a173614b81b8du},   {31, 0xc346d2b59b4d8ee1u},
               {32, 0xcbf59c5116ff32b4u}, {33, 0x0c535d1acafb8eadu},  {63, 0xe26aa9e2a95f8e4fu},
               {64, 0xf7c67301db6713f0u}, {100, 0x6ac1e58032166597u}, {255, 0x0f7d97507caad693u}};
  int wrong = 0;
  for (const auto& [length, hash] : known) {
    const std::vector<std::byte> bytes = counting_bytes(length);
    CHECK(fast_hash(bytes) == hash);
    const std::span<const std::byte> all = bytes;
    for (std::size_t a = 0; a <= length; ++a) {
      FastHasher hasher;
      hasher.update(all.first(a / 2));
      hasher.update(all.subspan(a / 2, a - a / 2));
      hasher.update(all.subspan(a));
      wrong += hasher.finish() == hash && hasher.finish() == hash ? 0 : 1;
    }
    CHECK(fast_hash(bytes, 1) != hash);
  }
  CHECK(wrong == 0);
}
