// Filters on single values: defaults, numbers, JSON, dicts.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/access.h"
#include "text/jinja/arguments.h"
#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_ops.h"

namespace llminfer::text::jinja {
namespace {

Value default_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("default", args, {"default_value", "boolean"});
  const bool missing = input.is_undefined() || (bound.flag(1, false) && !truthy(input));
  if (!missing) return input;
  return bound.get(0) != nullptr ? *bound.get(0) : make_string(&runtime.meter, "");
}

Value length_filter(Runtime&, const Value& input, const Args& args) {
  const Bound<0> bound("length", args, {});
  return Value::integer(length(input));
}

Value abs_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("abs", args, {});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) fail_type("bad operand type for abs(): '" + std::string(type_name(input)) + "'");
  return less(runtime.meter, input, Value::integer(0)) || (input.is(Kind::real) && std::signbit(input.as_real()))
             ? negate(input, true)
             : negate(input, false);
}

Value real_to_integer(double value) {
  if (std::isnan(value) || std::isinf(value)) fail_type("cannot convert a float that is infinite or no number to int");
  if (!(std::fabs(value) < 9223372036854775808.0)) fail_type("an integer does not fit in 64 bits");
  return Value::integer(static_cast<std::int64_t>(value));
}

Value int_filter(Runtime&, const Value& input, const Args& args) {
  const Bound<2> bound("int", args, {"default", "base"});
  Value otherwise = bound.get(0) != nullptr ? *bound.get(0) : Value::integer(0);
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_integral()) return Value::integer(input.as_integer());
  if (input.is(Kind::real)) return std::isnan(input.as_real()) ? otherwise : real_to_integer(input.as_real());
  if (!input.is_string()) return otherwise;
  const std::int64_t base = bound.integer(1, 10);
  if (const auto value = parse_integer(input.view(), static_cast<int>(std::clamp<std::int64_t>(base, -1, 37)))) {
    return Value::integer(*value);
  }
  const auto real = parse_real(input.view());
  return real && std::isfinite(*real) ? real_to_integer(*real) : otherwise;
}

Value float_filter(Runtime&, const Value& input, const Args& args) {
  const Bound<1> bound("float", args, {"default"});
  Value otherwise = bound.get(0) != nullptr ? *bound.get(0) : Value::real(0);
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_number()) return Value::real(input.as_real());
  if (!input.is_string()) return otherwise;
  const auto value = parse_real(input.view());
  return value ? Value::real(*value) : otherwise;
}

Value round_filter(Runtime&, const Value& input, const Args& args) {
  const Bound<2> bound("round", args, {"precision", "method"});
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) fail_type("type " + std::string(type_name(input)) + " doesn't define __round__ method");
  const std::int64_t precision = std::clamp<std::int64_t>(bound.integer(0, 0), -400, 400);
  const std::string_view method = bound.string(1) != nullptr ? bound.string(1)->view() : "common";
  if (method == "common") {
    if (input.is_integral() && precision >= 0) return Value::integer(input.as_integer());
    const double rounded = round_decimal(input.as_real(), static_cast<int>(precision));
    return input.is_integral() ? real_to_integer(rounded) : Value::real(rounded);
  }
  if (method != "ceil" && method != "floor") fail_type("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

SpannedText separator_of(const Value& pair, std::size_t i) {
  const bool right =
      (pair.is(Kind::tuple) || pair.is(Kind::list)) && pair.items().size() == 2 && pair.items()[i].is_string();
  if (!right) fail_type("tojson: separators must be two strings");
  return pair.items()[i].text();
}

Value tojson(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<4> bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  const Value* indent = bound.get(1);
  const bool indented = indent != nullptr && !indent->is_none();
  JsonStyle style = default_json_style(indented);
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (indented) {
    if (indent->is_string()) {
      style.indent = indent->text();
    } else {
      const std::int64_t width = std::clamp<std::int64_t>(to_index(*indent, "indent"), 0, 1000);
      style.indent = SpannedText(std::string(static_cast<std::size_t>(width), ' '), Origin::markup);
    }
  }
  if (bound.get(2) != nullptr && !bound.get(2)->is_none()) {
    style.item_separator = separator_of(*bound.get(2), 0);
    style.key_separator = separator_of(*bound.get(2), 1);
  }
  Builder out(runtime.meter);
  add_json(out, input, style);
  return out.string();
}

Value items_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("items", args, {});
  std::vector<Value> items;
  if (!input.is_undefined()) {
    if (!input.is(Kind::dict)) fail_type("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : input.dict().entries) {
      items.push_back(make_sequence(&runtime.meter, Kind::tuple, {key, value}));
    }
  }
  return make_sequence(&runtime.meter, Kind::iterator, std::move(items), "generator");
}

Value attr_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<1> bound("attr", args, {"name"});
  const Value name = to_string(runtime.meter, bound.require(0));
  if (input.is_undefined()) fail_undefined(input);
  if (input.is(Kind::dict) && input.dict().find(name.view()) != nullptr) {
    // Only true attributes count, not a dict's entries.
    Value found = get_attribute(runtime, Value(Kind::dict, new_dict(&runtime.meter)), name.view());
    if (found.is_undefined()) return found;
  }
  return get_attribute(runtime, input, name.view());
}

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr std::array<Entry, 11> filters = {{
    {"abs", abs_filter},
    {"attr", attr_filter},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"float", float_filter},
    {"int", int_filter},
    {"items", items_filter},
    {"length", length_filter},
    {"round", round_filter},
    {"tojson", tojson},
}};

}  // namespace

Filter find_value_filter(std::string_view name) noexcept {
  const auto found =
      std::find_if(filters.begin(), filters.end(), [&](const Entry& entry) { return entry.name == name; });
  return found != filters.end() ? found->filter : nullptr;
}

}  // namespace llminfer::text::jinja
