#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/characters.h"
#include "text/jinja/convert.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"

namespace llminfer::text::jinja {
namespace {

// Takes the parser's events; keeps no tree but the values.
class JsonReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonReader(Meter& meter, Origin origin, std::string_view what) : meter_(meter), origin_(origin), what_(what) {}

  bool null() { return add(Value::none()); }
  bool boolean(bool value) { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      fail("the integer " + std::to_string(value) + " does not fit in 64 bits");
    return add(Value::integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) {
    if (text.find_first_of(".eE") == std::string::npos)
      fail("the integer " + text.substr(0, 40) + " does not fit in 64 bits");
    return add(Value::real(value));
  }
  bool string(string_t& text) { return add(make_string(&meter_, text, origin_)); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool key(string_t& text) {
    open_.back().key = make_string(&meter_, text, origin_);
    return true;
  }
  bool end_object() {
    Value made(Kind::dict, std::move(open_.back().dict));
    open_.pop_back();
    return add(std::move(made));
  }
  bool end_array() {
    Value made = make_list(meter_, std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(made));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    fail("no valid JSON at byte " + std::to_string(position));
  }
  Value take() { return std::move(result_); }

 private:
  struct Level {
    std::shared_ptr<DictPayload> dict;  // null: a list
    std::vector<Value> items;
    Value key;
  };

  [[noreturn]] void fail(const std::string& message) const {
    core::fail(ErrorCode::invalid_argument, "{}: {}", what_, message);
  }

  bool open(bool object) {
    if (static_cast<int>(open_.size()) >= meter_.limits().value_depth) {
      fail("JSON nests deeper than " + std::to_string(meter_.limits().value_depth) + " levels");
    }
    open_.emplace_back();
    if (object) open_.back().dict = new_dict(&meter_);
    return true;
  }

  bool add(Value value) {
    meter_.step();
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().dict) {
      open_.back().dict->set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  Meter& meter_;
  Origin origin_;
  std::string_view what_;
  std::vector<Level> open_;
  Value result_;
};

void append_unicode_escape(std::string& out, char32_t code) {
  static constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += digits[(code >> shift) & 0xF];
}

std::string json_escape(char32_t code, bool ensure_ascii) {
  std::string out;
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  if (code >= 0x20 && (code < 0x7F || !ensure_ascii)) return out;
  if (code == 0x7F) return out;
  if (code >= 0x10000) {
    append_unicode_escape(out, 0xD800 + ((code - 0x10000) >> 10));
    append_unicode_escape(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
  } else {
    append_unicode_escape(out, code);
  }
  return out;
}

class JsonWriter {
 public:
  JsonWriter(Builder& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& value) {
    const Meter::Level level(out_.meter());
    switch (value.kind()) {
      case Kind::none:
        return out_.add("null");
      case Kind::boolean:
        return out_.add(value.as_boolean() ? "true" : "false");
      case Kind::integer:
        return out_.add(std::to_string(value.as_integer()));
      case Kind::real:
        return out_.add(real(value.as_real()));
      case Kind::string:
        return quoted(value.text());
      case Kind::list:
      case Kind::tuple:
        return list(value.items());
      case Kind::dict:
        return dict(value.dict());
      default:
        fail_type("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
  }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void quoted(const SpannedText& text) {
    out_.add("\"");
    std::size_t plain = 0;
    const std::string_view bytes = text.view();
    for (std::size_t i = 0; i < bytes.size();) {
      const Character c = decode_character(bytes, i);
      const bool ordinary =
          c.code >= 0x20 && c.code != '"' && c.code != '\\' && (c.code < 0x80 || !style_.ensure_ascii);
      if (!ordinary) {
        out_.add(text, plain, i);
        out_.add(json_escape(c.code, style_.ensure_ascii), text.origin_at(i));
        plain = i + c.size;
      }
      i += c.size;
    }
    out_.add(text, plain, bytes.size());
    out_.add("\"");
  }

  void newline() {
    if (!style_.indent) return;
    out_.add("\n");
    for (int i = 0; i < level_; ++i) out_.add(*style_.indent);
  }

  void list(const std::vector<Value>& items) {
    if (items.empty()) return out_.add("[]");
    out_.add("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_.add(style_.item_separator);
      newline();
      write(items[i]);
    }
    --level_;
    newline();
    out_.add("]");
  }

  void dict(const DictPayload& dict) {
    if (dict.entries.empty()) return out_.add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(out_.meter(), a->first, b->first); });
    }
    out_.add("{");
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out_.add(style_.item_separator);
      newline();
      key(entries[i]->first);
      out_.add(style_.key_separator);
      write(entries[i]->second);
    }
    --level_;
    newline();
    out_.add("}");
  }

  void key(const Value& key) {
    if (key.is_string()) return quoted(key.text());
    if (!key.is_number() && !key.is_none()) {
      fail_type("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
    out_.add("\"");
    write(key);
    out_.add("\"");
  }

  Builder& out_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

Value parse_json(Meter& meter, std::string_view json, Origin origin, std::string_view what) {
  meter.touch(json.size());
  JsonReader reader(meter, origin, what);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) {
    core::fail(ErrorCode::invalid_argument, "{}: no valid JSON", what);
  }
  return reader.take();
}

JsonStyle default_json_style(bool indented) {
  JsonStyle style;
  style.item_separator.append(indented ? "," : ", ", Origin::markup);
  style.key_separator.append(": ", Origin::markup);
  return style;
}

void add_json(Builder& out, const Value& value, const JsonStyle& style) { JsonWriter(out, style).write(value); }

}  // namespace llminfer::text::jinja
