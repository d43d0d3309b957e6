#include "text/jinja/access.h"

#include <algorithm>
#include <optional>

#include "text/jinja/characters.h"
#include "text/jinja/convert.h"
#include "text/jinja/methods.h"
#include "text/jinja/numbers.h"

namespace llminfer::text::jinja {
namespace {

std::string described(const Value& value) {
  return value.is_none() ? "'None'" : "'" + std::string(type_name(value)) + " object'";
}

Value missing_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  return make_undefined(described(value) + " has no attribute '" + std::string(name) + "'", &runtime.meter);
}

Value missing_item(Runtime& runtime, const Value& value, const Value& key) {
  if (key.is_string()) return missing_attribute(runtime, value, key.view());
  Builder out(runtime.meter);
  add_repr(out, key);
  return make_undefined(described(value) + " has no element " + out.text().bytes(), &runtime.meter);
}

Value unsafe_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  return make_undefined(
      "access to attribute '" + std::string(name) + "' of '" + std::string(type_name(value)) + "' object is unsafe",
      &runtime.meter);
}

// A method, an object's attribute, or nothing.
std::optional<Value> own_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is(Kind::object)) {
    const Value* found = value.object().attribute(runtime, name);
    if (found != nullptr) return *found;
  }
  switch (method_access(value.kind(), name)) {
    case MethodAccess::allowed:
      return bind_method(runtime, value, name);
    case MethodAccess::unsafe:
      return unsafe_attribute(runtime, value, name);
    case MethodAccess::none:
      break;
  }
  return std::nullopt;
}

std::optional<Value> element(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;
    const Value* found = value.dict().find(key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  const bool indexed = value.is_string() || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::range);
  if (!indexed || !key.is_integral()) return std::nullopt;
  const std::int64_t size = length(value);
  std::int64_t index = key.as_integer();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  const auto at = static_cast<std::size_t>(index);
  if (!value.is_string()) return value.items()[at];
  const std::string_view bytes = value.view();
  if (value.string().characters == bytes.size()) return substring(runtime.meter, value, at, at + 1);
  runtime.meter.touch(bytes.size());
  const std::size_t begin = offset_of_character(bytes, at);
  return substring(runtime.meter, value, begin, begin + decode_character(bytes, begin).size);
}

struct Range {
  std::int64_t start, stop, step;
};

// Python's slice.indices.
Range resolve_slice(std::int64_t size, const std::optional<std::int64_t>& start,
                    const std::optional<std::int64_t>& stop, std::int64_t step) {
  const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    if (*given < 0) return *given < -size ? low : std::max(*given + size, low);
    return std::min(*given, high);
  };
  return {bound(start, step < 0 ? high : low), bound(stop, step < 0 ? low : high), step};
}

Value slice_string(Runtime& runtime, const Value& value, const Range& range) {
  runtime.meter.touch(value.view().size());
  const bool ascii = value.string().characters == value.view().size();
  const auto offset = [&](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    return ascii ? at : offset_of_character(value.view(), at);
  };
  if (range.step == 1) {
    return substring(runtime.meter, value, offset(range.start), offset(std::max(range.start, range.stop)));
  }
  std::vector<Value> all = characters_of(runtime.meter, value);
  Builder out(runtime.meter);
  for (std::int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    out.add(all[static_cast<std::size_t>(i)].text());
  }
  return out.string();
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_undefined(value);
  if (std::optional<Value> found = own_attribute(runtime, value, name)) return *std::move(found);
  if (value.is(Kind::dict)) {
    const Value* found = value.dict().find(name);
    if (found != nullptr) return *found;
  }
  return missing_attribute(runtime, value, name);
}

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (std::optional<Value> found = element(runtime, value, key)) return *std::move(found);
  if (key.is_string()) {
    if (std::optional<Value> found = own_attribute(runtime, value, key.view())) return *std::move(found);
  }
  return missing_item(runtime, value, key);
}

Value get_slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop, const Value* step) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::dict)) fail_type("unhashable type: 'slice'");
  const bool sliced = value.is_string() || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::range);
  if (!sliced) fail_type("'" + std::string(type_name(value)) + "' object is not subscriptable");
  std::optional<std::int64_t> bounds[3];
  const Value* given[3] = {start, stop, step};
  for (int i = 0; i < 3; ++i) {
    if (given[i] == nullptr || given[i]->is_none()) continue;
    if (!given[i]->is_integral()) {
      fail_type("slice indices must be integers or None or have an __index__ method");
    }
    bounds[i] = given[i]->as_integer();
  }
  const std::int64_t stride = bounds[2].value_or(1);
  if (stride == 0) fail_type("slice step cannot be zero");
  const std::int64_t size = length(value);
  // Longer steps than the sequence give its first element alone, and cannot overflow.
  const std::int64_t clamped = std::clamp(stride, -size - 1, size + 1);
  const Range range = resolve_slice(size, bounds[0], bounds[1], clamped);
  if (value.is_string()) return slice_string(runtime, value, range);
  std::vector<Value> items;
  for (std::int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    items.push_back(value.items()[static_cast<std::size_t>(i)]);
  }
  return make_sequence(&runtime.meter, value.is(Kind::range) ? Kind::list : value.kind(), std::move(items));
}

Value get_path(Runtime& runtime, const Value& value, const Value& path) {
  if (path.is_integral()) return get_item(runtime, value, path);
  if (!path.is_string()) fail_type("an attribute must be a string or an integer, not " + std::string(type_name(path)));
  Value found = value;
  std::string_view rest = path.view();
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const Value key = digits ? Value::integer(parse_integer(part).value_or(0)) : make_string(&runtime.meter, part);
    found = get_item(runtime, found, key);
    if (dot == std::string_view::npos) return found;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace llminfer::text::jinja
