#include "text/utf8.h"

#include <cstring>

namespace llminfer::text {
namespace {

struct Lead {
  std::uint8_t length;  // of the whole character; 0: no character starts with this byte
  std::uint8_t second_low,
      second_high;    // range of the second byte, which is what excludes overlong forms and surrogates
  std::uint8_t bits;  // of the lead byte that belong to the code point
};

Lead lead_of(std::uint8_t byte) noexcept {
  if (byte < 0x80) return {1, 0, 0, 0x7F};
  if (byte < 0xC2) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, 0x0F};
  if (byte == 0xED) return {3, 0x80, 0x9F, 0x0F};
  if (byte < 0xF0) return {3, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return {4, 0x90, 0xBF, 0x07};
  if (byte < 0xF4) return {4, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return {4, 0x80, 0x8F, 0x07};
  return {0, 0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) noexcept {
  const auto byte = static_cast<std::uint8_t>(text[at]);
  if (byte < 0x80) return {byte, 1, true, false};
  const Lead lead = lead_of(byte);
  if (lead.length == 0) return {};
  std::uint32_t code = byte & lead.bits;
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    if (at + i >= text.size()) return {replacement_character, i, false, true};
    const auto next = static_cast<std::uint8_t>(text[at + i]);
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (next < low || next > high) return {replacement_character, i, false, false};
    code = code << 6 | (next & 0x3F);
  }
  return {code, lead.length, true, false};
}

std::size_t utf8_valid_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    while (at + 8 <= text.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      at += 8;
    }
    if (at >= text.size()) break;
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) return at;
    at += step.length;
  }
  return text.size();
}

void utf8_append(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::string utf8_repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t good = utf8_valid_prefix(text.substr(at));
    out.append(text.substr(at, good));
    at += good;
    if (at >= text.size()) break;
    out.append(replacement_utf8);
    at += utf8_step(text, at).length;
  }
  return out;
}

}  // namespace llminfer::text
