#include "random_rows.h"

#include <cstring>

#include "core/half.h"
#include "device/cpu/panel_layout.h"
#include "quant/type_table.h"

namespace llminfer::cpu::test {
namespace {

/// Puts moderate scales where random bytes could be NaN or huge.
void tame_block(WeightType type, std::byte* block, std::mt19937& random) {
  std::uniform_real_distribution<float> scale(0.001F, 0.02F);
  const auto put = [&](std::size_t at, float value) {
    const std::uint16_t bits = core::f32_to_f16(random() % 2 == 0 ? value : -value);
    std::memcpy(block + at, &bits, 2);
  };
  const PanelLayout& layout = layout_of(type);
  if (type == WeightType::mxfp4) {
    block[0] = static_cast<std::byte>(118 + random() % 8);
    return;
  }
  for (const BlockField& field : layout.smalls) {
    if (field.bytes == 2 && !(type == WeightType::iq4_xs && field.offset == 2)) put(field.offset, scale(random));
  }
}

}  // namespace

std::vector<float> random_floats(std::size_t count, std::mt19937& random, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<std::byte> random_rows(WeightType type, std::int64_t rows, std::int64_t columns, std::mt19937& random) {
  const WeightTypeInfo& info = describe(type);
  const std::size_t blocks = static_cast<std::size_t>(rows * columns) / info.block_size;
  std::vector<std::byte> out(blocks * info.block_bytes);
  if (info.block_size == 1) {
    const std::vector<float> values = random_floats(blocks, random);
    quant::find(type)->pack_row(values.data(), out.data(), blocks);
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 0xff);
  for (std::size_t b = 0; b < blocks; ++b) tame_block(type, out.data() + b * info.block_bytes, random);
  return out;
}

std::vector<float> unpacked(WeightType type, const std::vector<std::byte>& rows) {
  const WeightTypeInfo& info = describe(type);
  std::vector<float> out(rows.size() / info.block_bytes * info.block_size);
  quant::find(type)->unpack_row(rows.data(), out.data(), out.size());
  return out;
}

}  // namespace llminfer::cpu::test
