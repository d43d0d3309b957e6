#include "device/common/kv_codec.h"

#include <algorithm>
#include <array>

#include "quant/type_table.h"

namespace llminfer::device {
namespace {

constexpr std::int32_t block = 32;

WeightType format_of(KvType type) noexcept {
  switch (type) {
    case KvType::f32:
      return WeightType::f32;
    case KvType::automatic:
    case KvType::f16:
      return WeightType::f16;
    case KvType::bf16:
      return WeightType::bf16;
    case KvType::q8_0:
      return WeightType::q8_0;
    case KvType::q4_0:
      return WeightType::q4_0;
  }
  return WeightType::f16;
}

}  // namespace

void encode_kv(KvType type, const float* in, std::int32_t width, std::byte* out) noexcept {
  const quant::QuantType& format = *quant::find(format_of(type));
  const auto unit = static_cast<std::int32_t>(format.info.block_size);
  const std::int32_t whole = width / unit * unit;
  format.pack_row(in, out, static_cast<std::size_t>(whole));
  if (whole == width) return;
  std::array<float, block> rest{};
  std::copy(in + whole, in + width, rest.begin());
  format.pack_row(rest.data(), out + static_cast<std::size_t>(whole / unit) * format.info.block_bytes, block);
}

void decode_kv(KvType type, const std::byte* in, std::int32_t width, float* out) noexcept {
  const quant::QuantType& format = *quant::find(format_of(type));
  const auto unit = static_cast<std::int32_t>(format.info.block_size);
  const std::int32_t whole = width / unit * unit;
  format.unpack_row(in, out, static_cast<std::size_t>(whole));
  if (whole == width) return;
  std::array<float, block> rest{};
  format.unpack_row(in + static_cast<std::size_t>(whole / unit) * format.info.block_bytes, rest.data(), block);
  std::copy_n(rest.begin(), width - whole, out + whole);
}

}  // namespace llminfer::device
