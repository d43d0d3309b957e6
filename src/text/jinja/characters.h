// Characters of UTF-8 text as Python's str sees them: decoding, white space, letters, case.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llminfer::text::jinja {

/// One character of a text. A byte that is no valid UTF-8 counts as a character of its own, code 0xDC00 + byte.
struct Character {
  char32_t code;
  std::size_t size;  ///< in bytes, at least 1
};

/// The character at `offset` < text.size().
Character decode_character(std::string_view text, std::size_t offset) noexcept;
void append_character(std::string& out, char32_t code);
std::size_t count_characters(std::string_view text) noexcept;
/// Byte offset of character number `index`; text.size() if there are fewer.
std::size_t offset_of_character(std::string_view text, std::size_t index) noexcept;
/// Start of the character that ends at `end` > 0.
std::size_t previous_character(std::string_view text, std::size_t end) noexcept;

bool is_space(char32_t code) noexcept;
bool is_alpha(char32_t code) noexcept;
bool is_decimal(char32_t code) noexcept;
bool is_digit(char32_t code) noexcept;
bool is_numeric(char32_t code) noexcept;
bool is_upper(char32_t code) noexcept;
bool is_lower(char32_t code) noexcept;
bool is_title(char32_t code) noexcept;
inline bool is_cased(char32_t code) noexcept { return is_upper(code) || is_lower(code) || is_title(code); }
bool is_printable(char32_t code) noexcept;

/// Append the case mapping of one character, which may be several.
void append_upper(std::string& out, char32_t code);
void append_lower(std::string& out, char32_t code);
void append_title(std::string& out, char32_t code);

}  // namespace llminfer::text::jinja
