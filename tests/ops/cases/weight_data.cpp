#include "weight_data.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <string>

namespace llminfer::op_cases {
namespace {

constexpr std::array<WeightType, 16> types = {
    WeightType::f32,  WeightType::f16,    WeightType::bf16,   WeightType::q4_0,  WeightType::q4_1, WeightType::q5_0,
    WeightType::q5_1, WeightType::q8_0,   WeightType::q2_k,   WeightType::q3_k,  WeightType::q4_k, WeightType::q5_k,
    WeightType::q6_k, WeightType::iq4_nl, WeightType::iq4_xs, WeightType::mxfp4,
};

/// Where a block keeps its half-precision scale d and its second one (minimum or offset), and how large the second must
/// be, in units of d, for a mean of 0. `unit_rms`: size of a weight of random bits when d is 1. Layouts: GGUF.
struct Recipe {
  WeightType type;
  double unit_rms;
  int scale_at;
  int second_at;  ///< -1: there is none
  double second;
};
constexpr std::array<Recipe, 12> recipes = {{
    {WeightType::q4_0, 4.6, 0, -1, 0},
    {WeightType::q4_1, 4.6, 0, 2, -7.5},
    {WeightType::q5_0, 9.2, 0, -1, 0},
    {WeightType::q5_1, 9.2, 0, 2, -15.5},
    {WeightType::q8_0, 74, 0, -1, 0},
    {WeightType::q2_k, 13.9, 80, 82, 1.5},
    {WeightType::q3_k, 43, 108, -1, 0},
    {WeightType::q4_k, 258, 0, 2, 7.5},
    {WeightType::q5_k, 527, 0, 2, 15.5},
    {WeightType::q6_k, 1366, 208, -1, 0},
    {WeightType::iq4_nl, 69, 0, -1, 0},
    {WeightType::iq4_xs, 1276, 0, -1, 0},
}};

/// IEEE binary16, to nearest. Finite results only.
std::uint16_t to_half(double x) {
  const unsigned sign = std::signbit(x) ? 0x8000U : 0U;
  const double magnitude = std::min(std::fabs(x), 65504.0);
  if (magnitude < 0x1p-14)
    return static_cast<std::uint16_t>(sign | static_cast<unsigned>(std::lround(magnitude * 0x1p24)));
  const int exponent = std::ilogb(magnitude);
  const auto mantissa = static_cast<unsigned>(std::lround(std::ldexp(magnitude, 10 - exponent)));  // 1024 .. 2048
  return static_cast<std::uint16_t>(sign | ((static_cast<unsigned>(exponent + 15) << 10) + mantissa - 1024));
}

std::uint16_t to_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void put(std::byte* at, std::uint16_t value) { std::memcpy(at, &value, sizeof(value)); }

void random_floats(WeightType type, double rms, Random& random, Bytes& out) {
  const std::size_t step = type == WeightType::f32 ? 4 : 2;
  for (std::size_t at = 0; at < out.size(); at += step) {
    const auto value = static_cast<float>(random.normal() * rms);
    if (type == WeightType::f32) std::memcpy(out.data() + at, &value, sizeof(value));
    if (type == WeightType::f16) put(out.data() + at, to_half(value));
    if (type == WeightType::bf16) put(out.data() + at, to_bf16(value));
  }
}

void random_mxfp4(double rms, Random& random, std::byte* block) {
  const int exponent = static_cast<int>(std::lround(std::log2(rms / 2.9)));  // levels have a size of 2.9
  block[0] = static_cast<std::byte>(127 + exponent - 1 + random.below(3));
}

void set_scales(const Recipe& recipe, double rms, Random& random, std::byte* block) {
  const double sign = random.below(2) == 0 ? 1.0 : -1.0;
  const double scale = sign * rms / recipe.unit_rms * (0.5 + random.uniform());
  put(block + recipe.scale_at, to_half(scale));
  if (recipe.second_at >= 0) put(block + recipe.second_at, to_half(scale * recipe.second));
}

}  // namespace

std::span<const WeightType> all_weight_types() { return types; }

std::string lower_name(WeightType type) {
  std::string name(describe(type).name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::size_t row_bytes(WeightType type, std::int64_t columns) {
  const WeightTypeInfo& info = describe(type);
  return static_cast<std::size_t>(columns) / info.block_size * info.block_bytes;
}

Bytes random_weights(WeightType type, std::int64_t columns, std::int64_t rows, double rms, Random& random) {
  const WeightTypeInfo& info = describe(type);
  Bytes out(row_bytes(type, columns) * static_cast<std::size_t>(rows));
  if (info.block_size == 1) {
    random_floats(type, rms, random, out);
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(random.bits() >> 56);
  const auto recipe = std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& r) { return r.type == type; });
  for (std::size_t at = 0; at < out.size(); at += info.block_bytes) {
    if (type == WeightType::mxfp4) random_mxfp4(rms, random, out.data() + at);
    if (recipe != recipes.end()) set_scales(*recipe, rms, random, out.data() + at);
  }
  return out;
}

Bytes float_bytes(std::span<const float> values) {
  Bytes out(values.size_bytes());
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace llminfer::op_cases
