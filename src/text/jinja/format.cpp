#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/access.h"
#include "text/jinja/characters.h"
#include "text/jinja/convert.h"
#include "text/jinja/numbers.h"

namespace llminfer::text::jinja {
namespace {

constexpr std::int64_t most_width = 1 << 20;

// What stands between '%' or ':' and the type letter.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '\0';   // + or space
  bool alternate = false, zero = false;
  char group = '\0';  // , or _
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char type = '\0';
};

[[noreturn]] void fail_format(std::string message) { fail_type("format: " + std::move(message)); }

std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > most_width) fail_format("a width or precision above " + std::to_string(most_width));
  }
  return value;
}

// `size` characters of padding.
void pad(Builder& out, const Spec& spec, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) out.add(spec.fill);
}

void add_padded(Builder& out, const Spec& spec, const SpannedText& text, char otherwise) {
  const std::int64_t missing =
      std::max<std::int64_t>(0, spec.width - static_cast<std::int64_t>(count_characters(text.view())));
  const char align = spec.align == '\0' ? otherwise : spec.align;
  const std::int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  pad(out, spec, left);
  out.add(text);
  pad(out, spec, missing - left);
}

std::string grouped(const std::string& digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// Sign, prefix and digits, padded; '=' puts the padding behind the sign.
void add_number(Builder& out, const Spec& spec, bool negative, const std::string& prefix, std::string digits) {
  const std::string sign = negative ? "-" : spec.sign != '\0' ? std::string(1, spec.sign) : "";
  if (spec.group != '\0') {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    const std::size_t size = prefix.empty() && spec.type != 'x' && spec.type != 'b' && spec.type != 'o' ? 3 : 4;
    digits = grouped(digits.substr(0, whole), spec.group, size) + digits.substr(whole);
  }
  const std::string head = sign + prefix;
  if (spec.align == '=' || (spec.align == '\0' && spec.zero)) {
    Spec zeros = spec;
    if (spec.zero && spec.align == '\0') zeros.fill = "0";
    out.add(head);
    pad(out, zeros, spec.width - static_cast<std::int64_t>(head.size() + digits.size()));
    out.add(digits);
    return;
  }
  add_padded(out, spec, SpannedText(head + digits, Origin::markup), '>');
}

std::string in_base(std::uint64_t value, unsigned base, bool upper) {
  const std::string_view letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), letters[value % base]);
    value /= base;
  } while (value != 0);
  return out;
}

void add_integer(Builder& out, const Spec& spec, std::int64_t value) {
  const bool negative = value < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const bool upper = spec.type == 'X';
  const unsigned base = spec.type == 'x' || upper ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  const std::string prefix = !spec.alternate || base == 10 ? ""
                             : upper                       ? "0X"
                             : base == 16                  ? "0x"
                             : base == 8                   ? "0o"
                                                           : "0b";
  add_number(out, spec, negative, prefix, in_base(size, base, upper));
}

void add_real(Builder& out, const Spec& spec, double value) {
  const int precision = static_cast<int>(std::min<std::int64_t>(spec.precision.value_or(6), most_width));
  std::string text;
  switch (spec.type) {
    case 'f':
    case 'F':
      text = float_fixed(value, precision);
      break;
    case 'e':
    case 'E':
      text = float_scientific(value, precision);
      break;
    case '%':
      text = float_fixed(value * 100, precision) + "%";
      break;
    case '\0':
      text = spec.precision ? float_general(value, std::max(precision, 1)) : float_repr(value);
      break;
    default:
      text = float_general(value, std::max(precision, 1));
  }
  if (spec.type == 'E' || spec.type == 'G')
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  const bool negative = text[0] == '-';
  add_number(out, spec, negative, "", negative ? text.substr(1) : text);
}

void add_string(Builder& out, const Spec& spec, const SpannedText& text) {
  SpannedText cut;
  if (spec.precision) {
    cut.append(text, 0, offset_of_character(text.view(), static_cast<std::size_t>(*spec.precision)));
  }
  add_padded(out, spec, spec.precision ? cut : text, '<');
}

void add_number_value(Builder& out, const Spec& spec, const Value& value, bool truncate) {
  const std::string_view real_types = "fFeEgG%";
  if (!value.is_number()) {
    fail_format(std::string("'") + spec.type + "' needs a number, not " + std::string(type_name(value)));
  }
  const bool real = real_types.find(spec.type) != std::string_view::npos || (value.is(Kind::real) && spec.type == '\0');
  if (real && (spec.type != '\0' || value.is(Kind::real))) return add_real(out, spec, value.as_real());
  if (!value.is(Kind::real)) return add_integer(out, spec, value.as_integer());
  if (!truncate) fail_format(std::string("'") + spec.type + "' needs an integer, not float");
  if (!(std::abs(value.as_real()) < 9.2e18)) fail_format("a float that is no 64-bit integer");
  add_integer(out, spec, static_cast<std::int64_t>(value.as_real()));
}

// ---- '%'

class Percent {
 public:
  Percent(Meter& meter, const Value& format, const Value& value) : out_(meter), format_(format), value_(value) {
    tuple_ = value.is(Kind::tuple);
  }

  Value run() {
    const std::string_view text = format_.view();
    std::size_t plain = 0;
    while (at_ < text.size()) {
      if (text[at_] != '%') {
        ++at_;
        continue;
      }
      out_.add(format_.text(), plain, at_++);
      directive(text);
      plain = at_;
    }
    out_.add(format_.text(), plain, text.size());
    const bool all_used =
        tuple_ ? next_ >= value_.items().size() : next_ > 0 || named_ || value_.is(Kind::dict) || value_.is(Kind::list);
    if (!all_used) fail_type("not all arguments converted during string formatting");
    return out_.string();
  }

 private:
  const Value& argument() {
    if (tuple_ ? next_ >= value_.items().size() : next_ > 0) fail_type("not enough arguments for format string");
    return tuple_ ? value_.items()[next_++] : (++next_, value_);
  }

  void directive(std::string_view text) {
    const Value* named = nullptr;
    if (at_ < text.size() && text[at_] == '(') named = &key(text);
    Spec spec;
    read_flags(text, spec);
    if (at_ >= text.size()) fail_type("incomplete format");
    spec.type = text[at_++];
    if (spec.type == '%') return out_.add("%");
    const Value& value = named != nullptr ? *named : argument();
    convert(spec, value);
  }

  const Value& key(std::string_view text) {
    const std::size_t close = text.find(')', at_);
    if (close == std::string_view::npos) fail_type("incomplete format key");
    if (!value_.is(Kind::dict)) fail_type("format requires a mapping");
    const std::string_view name = text.substr(at_ + 1, close - at_ - 1);
    const Value* found = value_.dict().find(name);
    if (found == nullptr) fail_type("KeyError: '" + std::string(name) + "'");
    at_ = close + 1;
    named_ = true;
    return *found;
  }

  void read_flags(std::string_view text, Spec& spec) {
    for (; at_ < text.size(); ++at_) {
      const char c = text[at_];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '0') {
        spec.zero = true;
      } else if (c == '+' || (c == ' ' && spec.sign == '\0')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = star(text);
    if (spec.width < 0) spec.width = -spec.width, spec.align = '<';
    if (at_ < text.size() && text[at_] == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(0, star(text));
    }
  }

  std::int64_t star(std::string_view text) {
    if (at_ >= text.size() || text[at_] != '*') return read_number(text, at_);
    ++at_;
    const std::int64_t value = to_index(argument(), "* of a format");
    if (value < -most_width || value > most_width)
      fail_format("a width or precision above " + std::to_string(most_width));
    return value;
  }

  void convert(Spec& spec, const Value& value) {
    switch (spec.type) {
      case 's':
      case 'r': {
        Builder text(out_.meter());
        spec.type == 's' ? add_text(text, value) : add_repr(text, value);
        if (spec.align == '\0') spec.align = '>';
        return add_string(out_, spec, text.text());
      }
      case 'c': {
        SpannedText one;
        if (value.is_string() && value.string().characters == 1) {
          one = value.text();
        } else {
          const std::int64_t code = to_index(value, "%c");
          if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            fail_type("%c arg not in range(0x110000)");
          std::string bytes;
          append_character(bytes, static_cast<char32_t>(code));
          one.append(bytes, Origin::content);
        }
        if (spec.align == '\0') spec.align = '>';
        return add_string(out_, spec, one);
      }
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        return add_number_value(out_, spec, value, true);
      case 'x':
      case 'X':
      case 'o':
        return add_number_value(out_, spec, value, false);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return add_number_value(out_, spec, value, false);
      default:
        fail_type(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  Builder out_;
  const Value& format_;
  const Value& value_;
  bool tuple_ = false, named_ = false;
  std::size_t at_ = 0, next_ = 0;
};

// ---- '{}'

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const std::size_t first = text.empty() ? 0 : decode_character(text, 0).size;
  if (first < text.size() && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
    spec.sign = text[at] == '-' ? '\0' : text[at];
    ++at;
  }
  if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') spec.zero = true, ++at;
  spec.width = read_number(text, at);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.group = text[at++];
  if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size() ||
      (spec.type != '\0' && std::string_view("sdxXobeEfFgGn%c").find(spec.type) == std::string_view::npos)) {
    fail_format("invalid format specifier '" + std::string(text) + "'");
  }
  return spec;
}

class Braces {
 public:
  Braces(Runtime& runtime, const Value& format, const Args& args)
      : runtime_(runtime), out_(runtime.meter), format_(format), args_(args) {}

  Value run() {
    const std::string_view text = format_.view();
    std::size_t plain = 0;
    for (std::size_t i = 0; i < text.size();) {
      const char c = text[i];
      if (c != '{' && c != '}') {
        ++i;
        continue;
      }
      out_.add(format_.text(), plain, i);
      if (i + 1 < text.size() && text[i + 1] == c) {
        plain = i + 1;
        i += 2;
        continue;
      }
      if (c == '}') fail_type("Single '}' encountered in format string");
      const std::size_t close = text.find('}', i);
      if (close == std::string_view::npos) fail_type("Single '{' encountered in format string");
      field(text.substr(i + 1, close - i - 1));
      plain = i = close + 1;
    }
    out_.add(format_.text(), plain, text.size());
    return out_.string();
  }

 private:
  void field(std::string_view text) {
    if (text.find('{') != std::string_view::npos) fail_format("nested fields are not supported");
    const std::size_t colon = text.find(':');
    const Spec spec = parse_spec(colon == std::string_view::npos ? "" : text.substr(colon + 1));
    std::string_view name = text.substr(0, colon);
    char conversion = '\0';
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    const Value value = lookup(name);
    if (conversion == 'r' || conversion == 's' || (spec.type == '\0' && !value.is_number()) || spec.type == 's' ||
        (value.is(Kind::boolean) && spec.type == '\0' && spec.width == 0)) {
      Builder part(runtime_.meter);
      conversion == 'r' ? add_repr(part, value) : add_text(part, value);
      return add_string(out_, spec, part.text());
    }
    if (conversion != '\0') fail_format("unknown conversion");
    add_number_value(out_, spec, value, false);
  }

  Value lookup(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      const bool bracket = name[0] == '[';
      const std::size_t stop = bracket ? name.find(']') : std::min(name.find_first_of(".[", 1), name.size());
      if (stop == std::string_view::npos) fail_format("missing ']' in a field");
      const std::string_view key = name.substr(1, stop - 1);
      const bool digits = !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
      value = bracket && digits ? get_item(runtime_, value, Value::integer(parse_integer(key).value_or(0)))
              : bracket         ? get_item(runtime_, value, make_string(&runtime_.meter, key))
                                : get_attribute(runtime_, value, key);
      name.remove_prefix(stop + (bracket ? 1 : 0));
    }
    return value;
  }

  Value first(std::string_view name) {
    const bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits) {
      const auto index = name.empty() ? next_++ : static_cast<std::size_t>(parse_integer(name).value_or(0));
      if (index >= args_.positional.size()) fail_type("Replacement index out of range for positional args tuple");
      return args_.positional[index];
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    fail_type("KeyError: '" + std::string(name) + "'");
  }

  Runtime& runtime_;
  Builder out_;
  const Value& format_;
  const Args& args_;
  std::size_t next_ = 0;
};

}  // namespace

Value format_percent(Meter& meter, const Value& format, const Value& value) {
  return Percent(meter, format, value).run();
}

Value format_braces(Runtime& runtime, const Value& format, const Args& args) {
  return Braces(runtime, format, args).run();
}

}  // namespace llminfer::text::jinja
