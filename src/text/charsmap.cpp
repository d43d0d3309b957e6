#include "text/charsmap.h"

#include "core/fail.h"
#include "text/utf8.h"

namespace llminfer::text {
namespace {

std::uint32_t read_u32(std::string_view bytes, std::size_t at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<std::uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

// Fields of a unit: offset to the children (bits 10 to 30, in units of 256 if bit 9 is set), label of the edge that
// leads here (bits 0 to 7, with bit 31 set in value units so that they match no label), bit 8: a value hangs below.
std::size_t offset_of(std::uint32_t unit) noexcept { return std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }
std::uint32_t label_of(std::uint32_t unit) noexcept { return unit & ((1u << 31) | 0xFF); }
bool has_value(std::uint32_t unit) noexcept { return (unit >> 8 & 1) != 0; }

}  // namespace

Charsmap::Charsmap(std::string_view data) {
  if (data.empty()) return;
  if (data.size() < 4) core::fail(ErrorCode::corrupt, "precompiled_charsmap: {} bytes are too few", data.size());
  const std::size_t size = read_u32(data, 0);
  if (size % 4 != 0 || size > data.size() - 4) {
    core::fail(ErrorCode::corrupt, "precompiled_charsmap: a table of {} bytes in {}", size, data.size());
  }
  units_ = data.substr(4, size);
  replacements_ = data.substr(4 + size);
  if (!replacements_.empty() && replacements_.back() != '\0') {
    core::fail(ErrorCode::corrupt, "precompiled_charsmap: the last replacement has no end");
  }
}

// 0, a root without children, for places outside: then nothing matches.
std::uint32_t Charsmap::unit(std::size_t index) const noexcept {
  return index < units_.size() / 4 ? read_u32(units_, index * 4) : 1u << 31;
}

Charsmap::Match Charsmap::match(std::string_view text) const noexcept {
  Match best;
  if (!units_.empty()) {
    std::size_t node = offset_of(unit(0));
    for (std::size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      node ^= byte;
      const std::uint32_t here = unit(node);
      if (label_of(here) != byte) break;
      node ^= offset_of(here);
      if (!has_value(here)) continue;
      const std::size_t at = unit(node) & ~(1u << 31);
      if (at >= replacements_.size()) continue;
      const std::string_view rest = replacements_.substr(at);
      best = {rest.substr(0, rest.find('\0')), i + 1};
    }
  }
  if (best.consumed > 0) return best;
  const Utf8Step step = utf8_step(text, 0);
  return {step.valid ? text.substr(0, step.length) : replacement_utf8, step.length};
}

}  // namespace llminfer::text
