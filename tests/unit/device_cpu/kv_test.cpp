// Quantized cache rows: the bytes of device::encode_kv, whatever the values and the width, on every instruction set.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "device/common/kv_codec.h"
#include "device/cpu/kernels.h"

namespace llminfer::cpu::test {
namespace {

constexpr int token = 5;

int group_bytes(KvType type) { return type == KvType::q8_0 ? 32 : 16; }

/// One row as encode_kv writes it, out of the scale and the level bytes of each group.
class Row {
 public:
  Row(KvType type, int width) : type_(type), groups_((width + 31) / 32) {
    bytes_.resize(static_cast<std::size_t>(groups_ * (2 + group_bytes(type))));
  }
  void put(int group, const std::byte* scale, int index, std::byte level) {
    std::byte* to = bytes_.data() + group * (2 + group_bytes(type_));
    std::memcpy(to, scale, 2);
    to[2 + index] = level;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  KvType type_;
  int groups_;
  std::vector<std::byte> bytes_{};
};

std::vector<std::byte> stored_key(const Kernels& kernels, KvType type, const std::vector<float>& values) {
  const int width = static_cast<int>(values.size()), each = group_bytes(type), groups = (width + 31) / 32;
  std::vector<std::byte> block(static_cast<std::size_t>(groups * 32 * (2 + each)), std::byte{0xff});
  kernels.store_k(values.data(), type, block.data(), width, token);
  Row row(type, width);
  for (int g = 0; g < groups; ++g) {
    const std::byte* group = block.data() + g * 32 * (2 + each);
    for (int i = 0; i < each; ++i) row.put(g, group + 2 * token, i, group[64 + 32 * i + token]);
  }
  return row.bytes();
}

std::vector<std::byte> stored_value(const Kernels& kernels, KvType type, const std::vector<float>& values) {
  const int width = static_cast<int>(values.size()), each = group_bytes(type), groups = (width + 31) / 32;
  std::vector<std::byte> block(static_cast<std::size_t>(groups * 32 * (2 + each)), std::byte{0xff});
  kernels.store_v(values.data(), type, block.data(), width, token);
  Row row(type, width);
  for (int g = 0; g < groups; ++g) {
    const std::byte* scale = block.data() + 32 * each * groups + 2 * (groups * token + g);
    for (int i = 0; i < each; ++i)
      row.put(g, scale, i, block[static_cast<std::size_t>(each * (groups * token + g) + i)]);
  }
  return row.bytes();
}

/// Rows where rounding is decided by a hair: ties, extremes of both signs, zeros of both signs, tiny, huge, no numbers.
std::vector<float> difficult_row(std::mt19937& random, int width) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  const unsigned kind = random() % 8;
  const float unit = std::ldexp(1.0F, static_cast<int>(random() % 40) - 20);
  std::vector<float> row(static_cast<std::size_t>(width));
  for (float& x : row) {
    const int step = static_cast<int>(random() % 33) - 16;
    switch (kind) {
      case 0:
        x = normal(random);
        break;
      case 1:  // halves of a level of q4_0 when the extreme is 8 units
        x = 0.5F * static_cast<float>(step) * unit;
        break;
      case 2:  // halves of a level of q8_0 when the extreme is 127 units
        x = (static_cast<float>(random() % 254) - 126.5F) * unit;
        break;
      case 3:
        x = random() % 2 == 0 ? -0.0F : 0.0F;
        break;
      case 4:  // subnormal
        x = std::bit_cast<float>(static_cast<std::uint32_t>((random() & 0x80ffffffU)));
        break;
      case 5:  // two extremes of either sign
        x = random() % 4 == 0 ? unit : random() % 3 == 0 ? -unit : normal(random) * unit * 0.1F;
        break;
      case 6:  // any bits: infinities, NaNs, all exponents
        x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        break;
      default:
        x = random() % 20 == 0 ? std::numeric_limits<float>::infinity() * (random() % 2 == 0 ? 1.0F : -1.0F)
                               : normal(random);
        if (random() % 40 == 0) x = std::numeric_limits<float>::quiet_NaN();
    }
  }
  if (kind == 2) row[random() % row.size()] = random() % 2 == 0 ? 127.0F * unit : -127.0F * unit;
  return row;
}

TEST_CASE("quantized cache rows have the bytes of the scalar encoder") {
  std::mt19937 random(51);
  for (const char* isa : {"portable", "auto"}) {
    const Kernels kernels = choose_kernels(isa);
    for (const KvType type : {KvType::q8_0, KvType::q4_0}) {
      for (const int width : {1, 20, 32, 64, 80, 128}) {
        for (int i = 0; i < 3000; ++i) {
          const std::vector<float> values = difficult_row(random, width);
          std::vector<std::byte> expected(static_cast<std::size_t>((width + 31) / 32 * (2 + group_bytes(type))));
          device::encode_kv(type, values.data(), width, expected.data());
          INFO(kernels.name << " " << to_string(type) << " width " << width << " row " << i);
          REQUIRE(stored_key(kernels, type, values) == expected);
          REQUIRE(stored_value(kernels, type, values) == expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace llminfer::cpu::test
