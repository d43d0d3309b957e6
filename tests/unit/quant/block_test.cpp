// Rows of several blocks, addresses without alignment, and what packing promises for any input.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "case_file.h"
#include "catch.h"

using namespace llminfer;

namespace {
std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

// Enough for 32 weights and at least one block.
std::size_t short_row(const quant::QuantType& type) { return std::max<std::size_t>(32, type.info.block_size); }

std::vector<float> unpacked(const quant::QuantType& type, const std::byte* blocks, std::size_t n) {
  std::vector<float> floats(n + 1, 12345.0f);
  type.unpack_row(blocks, floats.data(), n);
  CHECK(floats[n] == 12345.0f);  // nothing is written behind the row
  floats.pop_back();
  return floats;
}

bool equal(const std::vector<float>& a, const float* b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!quant_test::same(a[i], b[i])) return false;
  }
  return true;
}
}  // namespace

TEST_CASE("a row means what its blocks mean one by one, at any address") {
  for (const quant::QuantType& type : quant::all_types()) {
    const std::size_t block = type.info.block_size, bytes = type.info.block_bytes;
    INFO(type.info.name);
    for (std::size_t blocks = 0; blocks <= 9; ++blocks) {
      const auto row = random_bytes(blocks * bytes, static_cast<unsigned>(7 + blocks));
      const auto whole = unpacked(type, row.data(), blocks * block);
      for (std::size_t i = 0; i < blocks; ++i) {
        CHECK(equal(unpacked(type, row.data() + i * bytes, block), whole.data() + i * block));
      }
      for (std::size_t shift = 1; shift < 8; ++shift) {
        std::vector<std::byte> moved(row.size() + shift);  // ends with the row: a read behind it is out of bounds
        std::copy(row.begin(), row.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
        CHECK(equal(unpacked(type, moved.data() + shift, blocks * block), whole.data()));
      }
    }
  }
}

TEST_CASE("a packed row is its packed blocks, at any address") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const quant::QuantType& type : quant::all_types()) {
    if (type.pack_row == nullptr) continue;
    const std::size_t block = type.info.block_size, bytes = type.info.block_bytes, blocks = 5;
    INFO(type.info.name);
    std::vector<float> floats(blocks * block);
    for (float& x : floats) x = normal(random);
    std::vector<std::byte> row(blocks * bytes), single(bytes), moved(blocks * bytes + 1);
    type.pack_row(floats.data(), row.data(), floats.size());
    for (std::size_t i = 0; i < blocks; ++i) {
      type.pack_row(floats.data() + i * block, single.data(), block);
      CHECK(std::memcmp(single.data(), row.data() + i * bytes, bytes) == 0);
    }
    type.pack_row(floats.data(), moved.data() + 1, floats.size());
    CHECK(std::memcmp(moved.data() + 1, row.data(), row.size()) == 0);
  }
}

TEST_CASE("packing errs by at most half a level and the rounding of the scale") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  struct Limit {
    WeightType type;
    float of_range;  // error relative to the greatest magnitude in the block (for *_1: to the range)
  };
  // The symmetric formats clip the side opposite to the extreme at half - 1 levels: a whole level of error there.
  const Limit limits[] = {{WeightType::q4_0, 1.0f / 8},   {WeightType::q4_1, 0.5f / 15},
                          {WeightType::q5_0, 1.0f / 16},  {WeightType::q5_1, 0.5f / 31},
                          {WeightType::q8_0, 0.5f / 127}, {WeightType::f16, 0x1p-11f},
                          {WeightType::bf16, 0x1p-8f},    {WeightType::f32, 0}};
  for (const Limit& limit : limits) {
    const quant::QuantType& type = *quant::find(limit.type);
    INFO(type.info.name);
    for (int round = 0; round < 200; ++round) {
      std::vector<float> floats(32);
      for (float& x : floats) x = normal(random);
      std::vector<std::byte> row(quant::row_bytes(limit.type, 32));
      type.pack_row(floats.data(), row.data(), 32);
      const auto back = unpacked(type, row.data(), 32);
      float low = floats[0], high = floats[0], error = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        low = std::fmin(low, floats[i]);
        high = std::fmax(high, floats[i]);
        error = std::fmax(error, std::fabs(back[i] - floats[i]));
      }
      const bool ranged = limit.type == WeightType::q4_1 || limit.type == WeightType::q5_1;
      const float greatest = std::fmax(std::fabs(low), std::fabs(high));
      const float range = ranged ? high - low : greatest;
      const float of_half = limit.type == WeightType::f32 ? 0.0f : 0x1p-9f * greatest;  // d and m are rounded
      CHECK(error <= limit.of_range * range + of_half);
    }
  }
}

TEST_CASE("packing is defined for NaN, infinity, subnormals and the greatest numbers") {
  const float values[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::denorm_min(),
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::lowest(),
                          std::numeric_limits<float>::min(),
                          0.0f,
                          -0.0f,
                          1.0f};
  for (const quant::QuantType& type : quant::all_types()) {
    if (type.pack_row == nullptr) continue;
    INFO(type.info.name);
    const std::size_t n = short_row(type);
    for (float first : values) {
      for (float second : values) {
        for (std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{31}}) {
          std::vector<float> floats(n, second);
          floats[at] = first;
          std::vector<std::byte> row(quant::row_bytes(type.info.type, n)), again(row.size());
          type.pack_row(floats.data(), row.data(), n);
          type.pack_row(floats.data(), again.data(), n);
          CHECK(row == again);
          const auto back = unpacked(type, row.data(), n);
          // A NaN must not vanish: it reaches every weight of its block.
          if (std::isnan(first)) CHECK(std::isnan(back[at]));
          if (std::isnan(second)) CHECK(std::isnan(back[at == 31 ? 0 : 31]));
        }
      }
    }
  }
}

TEST_CASE("a block of zeros stays zero") {
  for (const quant::QuantType& type : quant::all_types()) {
    if (type.pack_row == nullptr) continue;
    const std::size_t n = short_row(type);
    const std::vector<float> zeros(n, 0.0f);
    std::vector<std::byte> row(quant::row_bytes(type.info.type, n));
    type.pack_row(zeros.data(), row.data(), n);
    for (float x : unpacked(type, row.data(), n)) CHECK(x == 0.0f);
  }
}
