// The printable alphabet in which byte-level vocabularies are written: one character for each of the 256 bytes, the
// byte itself where it is printable in Latin-1, else the next free character from U+0100 on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace llminfer::text {

/// byte -> code point.
constexpr std::array<std::uint16_t, 256> byte_alphabet() noexcept {
  std::array<std::uint16_t, 256> codes{};
  std::uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    codes[byte] = printable ? static_cast<std::uint16_t>(byte) : next++;
  }
  return codes;
}

/// Appends the bytes that `text` spells in the alphabet; false (and `out` as before) if it has another character.
bool append_from_byte_alphabet(std::string_view text, std::string& out);

}  // namespace llminfer::text
