#include "text/jinja/string_literal.h"

#include <cstddef>

#include "text/jinja/characters.h"

namespace llminfer::text::jinja {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// `count` hexadecimal digits at `at`; -1 if they are not there.
long read_hex(std::string_view text, std::size_t at, std::size_t count) noexcept {
  if (text.size() - at < count) return -1;
  long value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = hex_digit(text[at + i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

constexpr bool surrogate(long code) noexcept { return code >= 0xD800 && code < 0xE000; }

char simple_escape(char c) noexcept {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

}  // namespace

const char* decode_string_literal(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (const char simple = simple_escape(c)) {
      out += simple;
    } else if (c == '\n') {
      continue;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const long code = read_hex(text, i + 1, digits);
      if (code < 0 || code > 0x10FFFF || surrogate(code)) return "bad \\x, \\u or \\U escape in a string";
      append_character(out, static_cast<char32_t>(code));
      i += digits;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t used = 0;
      for (; used < 3 && i + used < text.size() && text[i + used] >= '0' && text[i + used] <= '7'; ++used) {
        code = code * 8 + static_cast<char32_t>(text[i + used] - '0');
      }
      append_character(out, code);
      i += used - 1;
    } else if (c == 'N') {
      return "\\N escapes in a string are not supported";
    } else {
      out += '\\';
      out += c;
    }
  }
  return nullptr;
}

}  // namespace llminfer::text::jinja
