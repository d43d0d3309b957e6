#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace llminfer::text {
namespace {

constexpr std::size_t code_count = 0x144;  // the alphabet's last character is U+0143

constexpr std::array<std::int16_t, code_count> invert() noexcept {
  std::array<std::int16_t, code_count> bytes{};
  for (auto& byte : bytes) byte = -1;
  const auto codes = byte_alphabet();
  for (unsigned byte = 0; byte < 256; ++byte) bytes[codes[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr auto byte_of_code = invert();

}  // namespace

bool append_from_byte_alphabet(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid || step.code >= code_count || byte_of_code[step.code] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte_of_code[step.code]);
    at += step.length;
  }
  return true;
}

}  // namespace llminfer::text
