#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "text/jinja/characters.h"
#include "text/jinja/string_literal.h"

namespace llminfer::text::jinja {
namespace {

bool ascii_digit(char c) noexcept { return c >= '0' && c <= '9'; }

std::string_view rstrip(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t start = previous_character(text, text.size());
    if (!is_space(decode_character(text, start).code)) break;
    text = text.substr(0, start);
  }
  return text;
}

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 26> symbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    push(TokenKind::end, at_, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& message) const {
    fail_at(ErrorCode::corrupt, source_, position, message);
  }
  void push(TokenKind kind, std::size_t position, std::string text) {
    tokens_.push_back({kind, static_cast<std::uint32_t>(position), std::move(text)});
  }
  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts(std::string_view word) const noexcept { return source_.substr(at_, word.size()) == word; }
  void skip_space() noexcept {
    while (at_ < source_.size()) {
      const Character c = decode_character(source_, at_);
      if (!is_space(c.code)) break;
      at_ += c.size;
    }
  }

  // The offset of the next {{, {% or {#, or the end.
  std::size_t find_tag(std::size_t from) const noexcept {
    while ((from = source_.find('{', from)) != std::string_view::npos) {
      const char kind = from + 1 < source_.size() ? source_[from + 1] : '\0';
      if (kind == '{' || kind == '%' || kind == '#') return from;
      ++from;
    }
    return source_.size();
  }

  // What is left of the text before a tag: '-' takes all white space off, a block or comment alone on its line takes
  // the white space before it on that line (unless '+').
  std::string_view trimmed(std::string_view text, char sign, bool variable) const noexcept {
    if (sign == '-') return rstrip(text);
    if (sign == '+' || variable) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    return rstrip(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  void push_data(std::size_t position, std::string_view text) {
    if (!text.empty()) push(TokenKind::data, position, std::string(text));
  }

  void lex_data() {
    const std::size_t start = at_, tag = find_tag(at_);
    const std::string_view text = source_.substr(start, tag - start);
    if (tag == source_.size()) {
      push_data(start, text);
      at_ = tag;
      return;
    }
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    const char sign = peek() == '-' || peek() == '+' ? peek() : '\0';
    if (sign != '\0') ++at_;
    push_data(start, trimmed(text, sign, kind == '{'));
    if (kind == '#') {
      lex_comment(tag);
    } else if (kind == '{') {
      push(TokenKind::variable_begin, tag, "{{");
      lex_tag(tag, "}}");
    } else if (!lex_raw(tag)) {
      push(TokenKind::block_begin, tag, "{%");
      lex_tag(tag, "%}");
    }
  }

  // Behind the closing mark of a block, comment or variable.
  void after_close(bool strip, bool trim_newline) {
    line_starting_ = false;
    if (strip) {
      const std::size_t start = at_;
      skip_space();
      line_starting_ = at_ > start && source_[at_ - 1] == '\n';
    } else if (trim_newline && peek() == '\n') {
      ++at_;
      line_starting_ = true;
    }
  }

  void lex_comment(std::size_t tag) {
    const std::size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) fail(tag, "Missing end of comment tag");
    const char sign = close > at_ ? source_[close - 1] : '\0';
    at_ = close + 2;
    after_close(sign == '-', sign != '+');
  }

  // {% raw %} ... {% endraw %}; false when the tag at hand is another one.
  bool lex_raw(std::size_t tag) {
    const std::size_t saved = at_;
    skip_space();
    if (!starts("raw")) return at_ = saved, false;
    at_ += 3;
    skip_space();
    const bool strip = peek() == '-';
    if (strip) ++at_;
    if (!starts("%}")) return at_ = saved, false;
    at_ += 2;
    after_close(strip, false);
    const std::size_t start = at_;
    while ((at_ = source_.find("{%", at_)) != std::string_view::npos) {
      const std::size_t open = at_;
      at_ += 2;
      const char sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (sign != '\0') ++at_;
      skip_space();
      if (!starts("endraw")) continue;
      at_ += 6;
      skip_space();
      const char close = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (close != '\0') ++at_;
      if (!starts("%}")) continue;
      at_ += 2;
      push_data(start, trimmed(source_.substr(start, open - start), sign, false));
      after_close(close == '-', close != '+');
      return true;
    }
    fail(tag, "Missing end of raw directive");
  }

  void lex_tag(std::size_t tag, std::string_view close) {
    const bool block = close == "%}";
    brackets_.clear();
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) fail(tag, "unexpected end of template inside a tag");
      if (brackets_.empty() && lex_close(close, block)) return;
      lex_token();
    }
  }

  bool lex_close(std::string_view close, bool block) {
    const bool sign = peek() == '-' || (block && peek() == '+');
    if (source_.substr(at_ + (sign ? 1 : 0), 2) != close) return false;
    const std::size_t position = at_;
    const bool strip = peek() == '-', keep = peek() == '+';
    at_ += sign ? 3 : 2;
    push(block ? TokenKind::block_end : TokenKind::variable_end, position, std::string(close));
    after_close(strip, block && !keep);
    return true;
  }

  void lex_token() {
    const char c = peek();
    const Character character = decode_character(source_, at_);
    if (ascii_digit(c)) {
      lex_number();
    } else if (c == '\'' || c == '"') {
      lex_string();
    } else if (c == '_' || is_alpha(character.code)) {
      lex_name();
    } else {
      lex_symbol();
    }
  }

  void lex_name() {
    const std::size_t start = at_;
    while (at_ < source_.size()) {
      const Character c = decode_character(source_, at_);
      if (c.code != '_' && !is_alpha(c.code) && !is_numeric(c.code)) break;
      at_ += c.size;
    }
    push(TokenKind::name, start, std::string(source_.substr(start, at_ - start)));
  }

  bool skip_digits() noexcept {
    if (!ascii_digit(peek())) return false;
    while (ascii_digit(peek()) || (peek() == '_' && ascii_digit(peek(1)))) ++at_;
    return true;
  }

  void lex_number() {
    const std::size_t start = at_;
    const bool after_dot = start > 0 && source_[start - 1] == '.';
    const char base = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      at_ += 2;
      while (std::isxdigit(static_cast<unsigned char>(peek())) != 0 || peek() == '_') ++at_;
      push(TokenKind::integer, start, std::string(source_.substr(start, at_ - start)));
      return;
    }
    skip_digits();
    bool real = false;
    if (!after_dot && peek() == '.' && ascii_digit(peek(1))) {
      ++at_;
      real = skip_digits();
    }
    const std::size_t mantissa = at_;
    if (!after_dot && (peek() | 0x20) == 'e') {
      at_ += peek(1) == '+' || peek(1) == '-' ? 2 : 1;
      if (skip_digits()) {
        real = true;
      } else {
        at_ = mantissa;
      }
    }
    std::string digits(source_.substr(start, at_ - start));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    push(real ? TokenKind::real : TokenKind::integer, start, std::move(digits));
  }

  void lex_string() {
    const std::size_t start = at_;
    const char quote = source_[at_++];
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) fail(start, "unexpected end of template inside a string");
    std::string decoded;
    if (const char* wrong = decode_string_literal(source_.substr(start + 1, at_ - start - 1), decoded)) {
      fail(start, wrong);
    }
    ++at_;
    push(TokenKind::string, start, std::move(decoded));
  }

  void lex_symbol() {
    for (const std::string_view symbol : symbols) {
      if (!starts(symbol)) continue;
      if (symbol == "(" || symbol == "[" || symbol == "{") brackets_.push_back(symbol[0]);
      if (symbol == ")" || symbol == "]" || symbol == "}") close_bracket(symbol[0]);
      push(TokenKind::symbol, at_, std::string(symbol));
      at_ += symbol.size();
      return;
    }
    const Character c = decode_character(source_, at_);
    fail(at_, "unexpected char '" + std::string(source_.substr(at_, c.size)) + "'");
  }

  void close_bracket(char closing) {
    const char opening = closing == ')' ? '(' : closing == ']' ? '[' : '{';
    if (brackets_.empty() || brackets_.back() != opening) {
      fail(at_, std::string("unexpected '") + closing + "'");
    }
    brackets_.pop_back();
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;  // the token before ended a line
  std::string brackets_;       // open ones in this tag: its closing mark counts only outside them
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalise_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

void fail_at(ErrorCode code, std::string_view source, std::size_t position, const std::string& message) {
  position = std::min(position, source.size());
  const std::string_view before = source.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::string_view in_line = newline == std::string_view::npos ? before : before.substr(newline + 1);
  core::fail(code, "chat template, line {}, column {}: {}", line, 1 + count_characters(in_line), message);
}

}  // namespace llminfer::text::jinja
