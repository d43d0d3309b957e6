#include "format/printable.h"

#include <cstdint>

namespace llminfer::format {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && at(1) < 0xA0) return 0;                 // overlong
  if (lead == 0xED && at(1) > 0x9F) return 0;                 // surrogates
  if (lead == 0xF0 && at(1) < 0x90) return 0;                 // overlong
  if (lead == 0xF4 && at(1) > 0x8F) return 0;                 // above U+10FFFF
  if (lead == 0xC2 && length == 2 && at(1) < 0xA0) return 0;  // C1 controls
  return length;
}

void append_escape(std::string& out, unsigned char byte) {
  static constexpr char digits[] = "0123456789abcdef";
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else {
    out += "\\x";
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
}

}  // namespace

std::string printable(std::string_view bytes, std::size_t limit) {
  std::string out;
  while (!bytes.empty()) {
    if (out.size() >= limit) return out + "...";
    const auto lead = static_cast<unsigned char>(bytes[0]);
    const std::size_t length = lead < 0x20 || lead == 0x7F ? 0 : sequence_length(bytes);
    if (length == 0) {
      append_escape(out, lead);
      bytes.remove_prefix(1);
    } else {
      out += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace llminfer::format
