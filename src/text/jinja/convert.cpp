#include "text/jinja/convert.h"

#include <array>

#include "text/jinja/characters.h"
#include "text/jinja/numbers.h"

namespace llminfer::text::jinja {
namespace {

std::string escape_character(char32_t code) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const int width = code <= 0xFF ? 2 : code <= 0xFFFF ? 4 : 8;
  std::string out = width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out += digits[(code >> shift) & 0xF];
  return out;
}

std::string repr_escape(char32_t code, char quote) {
  switch (code) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (code == static_cast<char32_t>(quote)) return std::string("\\") + quote;
  return is_printable(code) ? std::string() : escape_character(code);
}

void add_quoted(Builder& out, const SpannedText& text) {
  const std::string_view bytes = text.view();
  const bool doubled = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  out.add(std::string_view(&quote, 1));
  std::size_t plain = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    const std::string escape = repr_escape(c.code, quote);
    if (!escape.empty()) {
      out.add(text, plain, i);
      out.add(escape, text.origin_at(i));
      plain = i + c.size;
    }
    i += c.size;
  }
  out.add(text, plain, bytes.size());
  out.add(std::string_view(&quote, 1));
}

void add_items(Builder& out, const std::vector<Value>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.add(", ");
    add_repr(out, items[i]);
  }
}

void add_dict(Builder& out, const DictPayload& dict) {
  out.add("{");
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i != 0) out.add(", ");
    add_repr(out, dict.entries[i].first);
    out.add(": ");
    add_repr(out, dict.entries[i].second);
  }
  out.add("}");
}

void add_object(Builder& out, const Value& value) {
  const auto* space = dynamic_cast<const Namespace*>(value.payload());
  out.add("<");
  out.add(type_name(value));
  if (space != nullptr) {
    out.add(" ");
    add_dict(out, *space->values);
  }
  out.add(">");
}

std::size_t count_of(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      return value.string().characters;
    case Kind::dict:
      return value.dict().entries.size();
    default:
      return value.items().size();
  }
}

}  // namespace

void fail_undefined(const Value& value) {
  core::fail(ErrorCode::invalid_argument, "{}",
             value.undefined() != nullptr ? value.undefined()->message : std::string("undefined value"));
}

void fail_type(std::string message) { core::fail(ErrorCode::invalid_argument, "{}", message); }

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::iterator:
    case Kind::object:
      return true;
    default:
      return count_of(value) != 0;
  }
}

void add_text(Builder& out, const Value& value) {
  if (value.is_string()) {
    out.add(value.text());
  } else if (!value.is_undefined()) {
    add_repr(out, value);
  }
}

void add_repr(Builder& out, const Value& value) {
  const Meter::Level level(out.meter());
  switch (value.kind()) {
    case Kind::undefined:
      return out.add("Undefined");
    case Kind::none:
      return out.add("None");
    case Kind::boolean:
      return out.add(value.as_boolean() ? "True" : "False");
    case Kind::integer:
      return out.add(std::to_string(value.as_integer()));
    case Kind::real:
      return out.add(float_repr(value.as_real()));
    case Kind::string:
      if (value.string().html) out.add("Markup(");
      add_quoted(out, value.text());
      if (value.string().html) out.add(")");
      return;
    case Kind::list:
      out.add("[");
      add_items(out, value.items());
      return out.add("]");
    case Kind::tuple:
      out.add("(");
      add_items(out, value.items());
      return out.add(value.items().size() == 1 ? ",)" : ")");
    case Kind::range:
      return out.add(value.sequence().name);
    case Kind::view:
      out.add(value.sequence().name);
      out.add("([");
      add_items(out, value.items());
      return out.add("])");
    case Kind::iterator:
      return out.add("<generator object>");
    case Kind::dict:
      return add_dict(out, value.dict());
    case Kind::object:
      return add_object(out, value);
  }
}

Value to_string(Meter& meter, const Value& value) {
  if (value.is_string()) return value;
  Builder out(meter);
  add_text(out, value);
  return out.string();
}

void add_escaped(Builder& out, const SpannedText& text) {
  const std::string_view bytes = text.view();
  std::size_t plain = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const std::string_view escape = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : "";
    if (escape.empty()) continue;
    out.add(text, plain, i);
    out.add(escape, text.origin_at(i));
    plain = i + 1;
  }
  out.add(text, plain, bytes.size());
}

Value escape_html(Meter& meter, const Value& value) {
  if (value.is_string() && value.string().html) return value;
  const Value text = to_string(meter, value);
  Builder out(meter);
  add_escaped(out, text.text());
  return out.string(true);
}

std::int64_t length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view:
    case Kind::dict:
      return static_cast<std::int64_t>(count_of(value));
    default:
      fail_type("object of type '" + std::string(type_name(value)) + "' has no len()");
  }
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is(Kind::dict);
}

std::vector<Value> iterate(Meter& meter, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::undefined:
      break;
    case Kind::string:
      return characters_of(meter, value);
    case Kind::dict:
      meter.step(1 + value.dict().entries.size());
      for (const auto& [key, item] : value.dict().entries) items.push_back(key);
      break;
    case Kind::iterator: {
      SequencePayload& source = value.sequence();
      meter.step(1 + source.items.size() - source.next);
      items.assign(source.items.begin() + static_cast<std::ptrdiff_t>(source.next), source.items.end());
      source.next = source.items.size();
      break;
    }
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view:
      meter.step(1 + value.items().size());
      return value.items();
    default:
      fail_type("'" + std::string(type_name(value)) + "' object is not iterable");
  }
  return items;
}

std::vector<Value> characters_of(Meter& meter, const Value& text) {
  std::vector<Value> items;
  const std::string_view bytes = text.view();
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t size = decode_character(bytes, i).size;
    items.push_back(substring(meter, text, i, i + size));
    i += size;
  }
  return items;
}

Value substring(Meter& meter, const Value& text, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == text.text().size()) return text;
  Builder out(meter);
  out.add(text.text(), begin, end);
  return out.string();
}

std::int64_t to_index(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) {
    fail_type(std::string(what) + ": '" + std::string(type_name(value)) +
              "' object cannot be interpreted as an integer");
  }
  return value.as_integer();
}

}  // namespace llminfer::text::jinja
