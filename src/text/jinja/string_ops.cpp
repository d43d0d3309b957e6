#include "text/jinja/string_ops.h"

#include <algorithm>
#include <string>

#include "text/jinja/characters.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace llminfer::text::jinja {
namespace {

constexpr char32_t capital_sigma = 0x3A3, final_sigma = 0x3C2;

bool case_ignorable(char32_t code) noexcept {
  return code == '\'' || code == '.' || code == ':' || code == '^' || code == '`' || code == 0xAD || code == 0xB7 ||
         code == 0x2019 || (code >= 0x300 && code <= 0x36F);
}

// A capital sigma that ends a word becomes the final form.
bool ends_word(std::string_view text, std::size_t begin, std::size_t end) noexcept {
  bool before = false;
  while (begin > 0) {
    begin = previous_character(text, begin);
    const char32_t code = decode_character(text, begin).code;
    if (case_ignorable(code)) continue;
    before = is_cased(code);
    break;
  }
  while (before && end < text.size()) {
    const Character c = decode_character(text, end);
    if (!case_ignorable(c.code)) return !is_cased(c.code);
    end += c.size;
  }
  return before;
}

void append_case(std::string& out, char32_t code, Case how, bool first) {
  switch (how) {
    case Case::upper:
      return append_upper(out, code);
    case Case::lower:
      return append_lower(out, code);
    case Case::title:
    case Case::capitalize:
      return first ? append_title(out, code) : append_lower(out, code);
    case Case::swap:
      if (is_upper(code)) return append_lower(out, code);
      if (is_lower(code)) return append_upper(out, code);
      return append_character(out, code);
  }
}

bool in_set(std::string_view set, std::string_view text, std::size_t at, std::size_t size) noexcept {
  return find_bytes(set, text.substr(at, size)) != std::string_view::npos;
}

std::size_t line_break(std::string_view text, std::size_t at) noexcept {
  const Character c = decode_character(text, at);
  if (c.code == '\r') return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
  const bool breaks = (c.code >= 0xA && c.code <= 0xC) || (c.code >= 0x1C && c.code <= 0x1E) || c.code == 0x85 ||
                      c.code == 0x2028 || c.code == 0x2029;
  return breaks ? c.size : 0;
}

struct Piece {
  std::size_t begin, end;
};

std::vector<Piece> words_from_left(std::string_view text, std::int64_t count) {
  std::vector<Piece> out;
  std::size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < text.size()) {
      const Character c = decode_character(text, at);
      if (is_space(c.code) != space) break;
      at += c.size;
    }
  };
  for (;;) {
    skip(true);
    if (at == text.size()) return out;
    const std::size_t begin = at;
    if (count-- == 0) {
      out.push_back({begin, text.size()});
      return out;
    }
    skip(false);
    out.push_back({begin, at});
  }
}

std::vector<Piece> words_from_right(std::string_view text, std::int64_t count) {
  std::vector<Piece> out;
  std::size_t at = text.size();
  const auto skip = [&](bool space) {
    while (at > 0) {
      const std::size_t before = previous_character(text, at);
      if (is_space(decode_character(text, before).code) != space) break;
      at = before;
    }
  };
  for (;;) {
    skip(true);
    if (at == 0) break;
    const std::size_t end = at;
    if (count-- == 0) {
      out.push_back({0, end});
      break;
    }
    skip(false);
    out.push_back({at, end});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Piece> parts_from_left(std::string_view text, std::string_view separator, std::int64_t count) {
  std::vector<Piece> out;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t found = count-- == 0 ? std::string_view::npos : find_bytes(text, separator, begin);
    if (found == std::string_view::npos) break;
    out.push_back({begin, found});
    begin = found + separator.size();
  }
  out.push_back({begin, text.size()});
  return out;
}

std::vector<Piece> parts_from_right(std::string_view text, std::string_view separator, std::int64_t count) {
  std::vector<Piece> out;
  std::size_t end = text.size();
  while (count-- != 0 && end >= separator.size()) {
    const std::size_t found = text.substr(0, end).rfind(separator);
    if (found == std::string_view::npos) break;
    out.push_back({found + separator.size(), end});
    end = found;
  }
  out.push_back({0, end});
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Value change_case(Meter& meter, const Value& text, Case how) {
  const std::string_view bytes = text.view();
  Builder out(meter);
  bool first = true;
  std::string mapped;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    mapped.clear();
    const bool lowers = how == Case::lower || ((how == Case::title || how == Case::capitalize) && !first);
    if (c.code == capital_sigma && lowers) {
      // Looking around costs as far as it looks, so a run of marks between sigmas is charged.
      meter.touch(bytes.size() / 64);
      append_character(mapped, ends_word(bytes, i, i + c.size) ? final_sigma : capital_sigma + 32);
    } else {
      append_case(mapped, c.code, how, first);
    }
    out.add(mapped, text.text().origin_at(i));
    first = how == Case::title ? !is_cased(c.code) : false;
    i += c.size;
  }
  return out.string(text.string().html);
}

Value strip(Meter& meter, const Value& text, const Value* chars, bool left, bool right) {
  const std::string_view bytes = text.view();
  std::size_t begin = 0, end = bytes.size();
  meter.touch(bytes.size());
  const auto stripped = [&](std::size_t at, const Character& c) {
    if (chars == nullptr) return is_space(c.code);
    meter.touch(chars->view().size());
    return in_set(chars->view(), bytes, at, c.size);
  };
  while (left && begin < end) {
    const Character c = decode_character(bytes, begin);
    if (!stripped(begin, c)) break;
    begin += c.size;
  }
  while (right && end > begin) {
    const std::size_t before = previous_character(bytes, end);
    if (!stripped(before, decode_character(bytes, before))) break;
    end = before;
  }
  return substring(meter, text, begin, end);
}

Value replace(Meter& meter, const Value& text, const Value& from, const Value& to, std::int64_t count) {
  const std::string_view bytes = text.view(), old = from.view();
  meter.touch(bytes.size());
  Builder out(meter);
  std::size_t at = 0;
  if (old.empty()) {
    for (; count != 0; --count) {
      out.add(to.text());
      if (at == bytes.size()) break;
      const std::size_t next = at + decode_character(bytes, at).size;
      out.add(text.text(), at, next);
      at = next;
    }
    out.add(text.text(), at, bytes.size());
    return out.string();
  }
  for (; count != 0; --count) {
    const std::size_t found = find_bytes(bytes, old, at);
    if (found == std::string_view::npos) break;
    out.add(text.text(), at, found);
    out.add(to.text());
    at = found + old.size();
  }
  if (at == 0) return text;
  out.add(text.text(), at, bytes.size());
  return out.string();
}

std::vector<Value> split(Meter& meter, const Value& text, const Value* separator, std::int64_t count, bool from_right) {
  const std::string_view bytes = text.view();
  meter.step(1 + bytes.size() / 8);
  std::vector<Piece> pieces;
  if (separator == nullptr) {
    pieces = from_right ? words_from_right(bytes, count) : words_from_left(bytes, count);
  } else {
    if (separator->text().empty()) fail_type("empty separator");
    // Searching from the right compares at every place.
    if (from_right) meter.touch(bytes.size() * std::min<std::size_t>(separator->text().size(), bytes.size()) / 16);
    pieces = from_right ? parts_from_right(bytes, separator->view(), count)
                        : parts_from_left(bytes, separator->view(), count);
  }
  std::vector<Value> out;
  out.reserve(pieces.size());
  for (const Piece& piece : pieces) out.push_back(substring(meter, text, piece.begin, piece.end));
  return out;
}

std::vector<Value> split_lines(Meter& meter, const Value& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Value> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t broken = line_break(bytes, i);
    if (broken == 0) {
      i += decode_character(bytes, i).size;
      continue;
    }
    out.push_back(substring(meter, text, begin, keep_ends ? i + broken : i));
    begin = i = i + broken;
  }
  if (begin < bytes.size()) out.push_back(substring(meter, text, begin, bytes.size()));
  return out;
}

Value align(Meter& meter, const Value& text, std::int64_t width, const Value* fill, Align how) {
  if (fill != nullptr && fill->string().characters != 1) {
    fail_type("The fill character must be exactly one character long");
  }
  const auto size = static_cast<std::int64_t>(text.string().characters);
  if (width <= size) return text;
  const std::int64_t missing = width - size;
  const std::int64_t before = how == Align::left    ? 0
                              : how == Align::right ? missing
                                                    : missing / 2 + (missing & width & 1);
  Builder out(meter);
  const auto pad = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) fill != nullptr ? out.add(fill->text()) : out.add(" ");
  };
  pad(before);
  out.add(text.text());
  pad(missing - before);
  return out.string();
}

Value join(Meter& meter, const Value& separator, const std::vector<Value>& parts, bool convert) {
  Builder out(meter);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) out.add(separator.text());
    if (!convert && !parts[i].is_string()) {
      fail_type("sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(parts[i])) +
                " found");
    }
    add_text(out, parts[i]);
  }
  return out.string();
}

}  // namespace llminfer::text::jinja
