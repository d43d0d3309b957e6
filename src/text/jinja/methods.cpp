#include "text/jinja/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/arguments.h"

namespace llminfer::text::jinja {
namespace {

template <std::size_t N>
bool listed(const std::array<std::string_view, N>& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> dict_methods = {"copy", "get", "items", "keys", "values"};
constexpr std::array<std::string_view, 6> dict_changes = {"clear",      "pop",    "popitem",
                                                          "setdefault", "update", "fromkeys"};
constexpr std::array<std::string_view, 3> list_methods = {"copy", "count", "index"};
constexpr std::array<std::string_view, 8> list_changes = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 2> tuple_methods = {"count", "index"};

struct BoundMethod final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "builtin_function_or_method"; }
  bool callable() const noexcept override { return true; }
  Value call(Runtime& runtime, const Args& args) override { return call_method(runtime, receiver, name, args); }

  Value receiver;
  std::string name;
};

struct Function final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "function"; }
  bool callable() const noexcept override { return true; }
  Value call(Runtime& runtime, const Args& args) override { return native(runtime, args); }

  NativeFunction native = nullptr;
};

Value dict_view(Runtime& runtime, const DictPayload& dict, std::string_view name) {
  std::vector<Value> items;
  runtime.meter.step(1 + dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      items.push_back(make_sequence(&runtime.meter, Kind::tuple, {key, value}));
    }
  }
  return make_sequence(&runtime.meter, Kind::view, std::move(items), "dict_" + std::string(name));
}

Value call_dict_method(Runtime& runtime, const Value& value, std::string_view name, const Args& args) {
  if (name == "get") {
    const Bound<2> bound("get", args, {"key", "default"});
    const Value* found = value.dict().find(bound.require(0));
    if (found != nullptr) return *found;
    return bound.get(1) != nullptr ? *bound.get(1) : Value::none();
  }
  const Bound<0> bound(name, args, {});
  return name == "copy" ? value : dict_view(runtime, value.dict(), name);
}

Value call_list_method(Runtime& runtime, const Value& value, std::string_view name, const Args& args) {
  if (name == "copy") {
    const Bound<0> bound(name, args, {});
    return value;
  }
  const Bound<3> bound(name, args, {"value", "start", "stop"});
  const Value& wanted = bound.require(0);
  const std::vector<Value>& items = value.items();
  runtime.meter.step(1 + items.size());
  const auto same = [&](const Value& item) { return equal(item, wanted); };
  if (name == "count") return Value::integer(std::count_if(items.begin(), items.end(), same));
  const auto size = static_cast<std::int64_t>(items.size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = clamp(bound.integer(1, 0)), stop = clamp(bound.integer(2, size));
  for (std::int64_t i = start; i < stop; ++i) {
    if (same(items[static_cast<std::size_t>(i)])) return Value::integer(i);
  }
  fail_type("value is not in " + std::string(type_name(value)));
}

}  // namespace

Value make_function(std::string_view, NativeFunction function) {
  auto made = std::make_shared<Function>(nullptr);
  made->native = function;
  return {Kind::object, std::move(made)};
}

MethodAccess method_access(Kind kind, std::string_view name) noexcept {
  if (name.substr(0, 2) == "__") return MethodAccess::none;
  switch (kind) {
    case Kind::string:
      return has_string_method(name) ? MethodAccess::allowed : MethodAccess::none;
    case Kind::dict:
      if (listed(dict_changes, name)) return MethodAccess::unsafe;
      return listed(dict_methods, name) ? MethodAccess::allowed : MethodAccess::none;
    case Kind::list:
      if (listed(list_changes, name)) return MethodAccess::unsafe;
      return listed(list_methods, name) ? MethodAccess::allowed : MethodAccess::none;
    case Kind::tuple:
    case Kind::range:
      return listed(tuple_methods, name) ? MethodAccess::allowed : MethodAccess::none;
    case Kind::real:
      return name == "is_integer" ? MethodAccess::allowed : MethodAccess::none;
    default:
      return MethodAccess::none;
  }
}

Value bind_method(Runtime& runtime, const Value& value, std::string_view name) {
  auto made = std::make_shared<BoundMethod>(&runtime.meter);
  made->charge(sizeof(BoundMethod) + name.size());
  nest(*made, value);
  made->receiver = value;
  made->name = name;
  return {Kind::object, std::move(made)};
}

Value call_method(Runtime& runtime, const Value& value, std::string_view name, const Args& args) {
  switch (value.kind()) {
    case Kind::string:
      runtime.meter.touch(value.view().size());
      return call_string_method(runtime, value, name, args);
    case Kind::dict:
      return call_dict_method(runtime, value, name, args);
    case Kind::real:
      return Value::boolean(std::isfinite(value.as_real()) && value.as_real() == std::floor(value.as_real()));
    default:
      return call_list_method(runtime, value, name, args);
  }
}

}  // namespace llminfer::text::jinja
