#include "text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/jinja/special_case.h"

namespace llminfer::text::jinja {
namespace {

constexpr char32_t invalid_base = 0xDC00;

bool continuation(unsigned char byte) noexcept { return (byte & 0xC0) == 0x80; }

int category(char32_t code) noexcept { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

const SpecialCase* special_case(char32_t code) noexcept {
  if (code < 0xDF) return nullptr;
  const auto found = std::lower_bound(special_cases.begin(), special_cases.end(), code,
                                      [](const SpecialCase& row, char32_t wanted) { return row.code < wanted; });
  return found != special_cases.end() && found->code == code ? &*found : nullptr;
}

}  // namespace

Character decode_character(std::string_view text, std::size_t offset) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const Character invalid{invalid_base + first, 1};
  const std::size_t left = text.size() - offset;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || left < size) return invalid;
  char32_t code = first & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!continuation(byte(i))) return invalid;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {code, size};
}

void append_character(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code >= invalid_base + 0x80 && code <= invalid_base + 0xFF) {
    out += static_cast<char>(code - invalid_base);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::size_t count_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); i += decode_character(text, i).size) ++count;
  return count;
}

std::size_t offset_of_character(std::string_view text, std::size_t index) noexcept {
  std::size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += decode_character(text, offset).size;
  return offset;
}

std::size_t previous_character(std::string_view text, std::size_t end) noexcept {
  for (std::size_t size = 2; size <= 4 && size <= end; ++size) {
    if (decode_character(text.substr(0, end), end - size).size == size) return end - size;
  }
  return end - 1;
}

bool is_space(char32_t c) noexcept {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t code) noexcept {
  const int found = category(code);
  return found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) noexcept { return category(code) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) noexcept {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t code) noexcept {
  const int found = category(code);
  return found >= UTF8PROC_CATEGORY_ND && found <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t code) noexcept { return utf8proc_isupper(static_cast<utf8proc_int32_t>(code)) != 0; }
bool is_lower(char32_t code) noexcept { return utf8proc_islower(static_cast<utf8proc_int32_t>(code)) != 0; }
bool is_title(char32_t code) noexcept { return category(code) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t code) noexcept {
  if (code == ' ') return true;
  const int found = category(code);
  return found != UTF8PROC_CATEGORY_CN && found < UTF8PROC_CATEGORY_ZS;
}

void append_upper(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code);
  } else if (const SpecialCase* special = special_case(code)) {
    out += special->upper;
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  }
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else if (code == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

void append_title(std::string& out, char32_t code) {
  if (code < 0x80) {
    append_upper(out, code);
  } else if (const SpecialCase* special = special_case(code)) {
    out += special->title;
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
  }
}

}  // namespace llminfer::text::jinja
