// UTF-8, strictly (no overlong forms, no surrogates, nothing above U+10FFFF), one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llminfer::text {

inline constexpr std::uint32_t replacement_character = 0xFFFD;
inline constexpr std::string_view replacement_utf8 = "\xEF\xBF\xBD";

/// One step through a text. For bytes that are no character: code is U+FFFD and length is that of the maximal subpart
/// (the longest start of a character that could have become one, else one byte), as the WHATWG decoder counts.
struct Utf8Step {
  std::uint32_t code = replacement_character;
  std::uint8_t length = 1;
  bool valid = false;
  bool cut = false;  ///< not valid only because the text ends too early
};

/// The character at `at`, which must be inside the text.
Utf8Step utf8_step(std::string_view text, std::size_t at) noexcept;

/// Number of bytes from the start on that are UTF-8: the text's size if all of it is.
std::size_t utf8_valid_prefix(std::string_view text) noexcept;

inline bool utf8_valid(std::string_view text) noexcept { return utf8_valid_prefix(text) == text.size(); }

/// Appends a code point (at most U+10FFFF, no surrogate).
void utf8_append(std::string& out, std::uint32_t code);

/// The text with every maximal subpart that is not UTF-8 replaced by U+FFFD.
std::string utf8_repaired(std::string_view text);

}  // namespace llminfer::text
