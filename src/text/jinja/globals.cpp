// The global functions: range, dict, namespace, joiner, cycler, raise_exception, strftime_now.
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/clock.h"
#include "text/jinja/library.h"

namespace llminfer::text::jinja {
namespace {

constexpr std::uint64_t longest_range = 100'000;  // as in Jinja's sandbox

Value range(Runtime& runtime, const Args& args) {
  const Bound<3> bound("range", args, {"start", "stop", "step"});
  const bool one = bound.get(1) == nullptr;
  const std::int64_t first = to_index(bound.require(0), "range()");
  const std::int64_t start = one ? 0 : first, stop = one ? first : bound.integer(1, 0), step = bound.integer(2, 1);
  if (step == 0) fail_type("range() arg 3 must not be zero");
  const bool some = step > 0 ? start < stop : start > stop;
  // Differences and sizes without a sign, where they cannot overflow.
  const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t count = !some ? 0 : ((step > 0 ? to - from : from - to) - 1) / stride + 1;
  if (count > longest_range) {
    fail_type("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(longest_range) +
              ").");
  }
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = i * stride;
    items.push_back(Value::integer(static_cast<std::int64_t>(step > 0 ? from + offset : from - offset)));
  }
  std::string name = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) name += ", " + std::to_string(step);
  return make_sequence(&runtime.meter, Kind::range, std::move(items), name + ")");
}

// dict(mapping or pairs, name=value ...).
std::shared_ptr<DictPayload> build_dict(Runtime& runtime, const Args& args, std::string_view function) {
  std::shared_ptr<DictPayload> made = new_dict(&runtime.meter);
  if (args.positional.size() > 1) fail_type(std::string(function) + " expected at most 1 argument");
  if (!args.positional.empty() && args.positional[0].is(Kind::dict)) {
    for (const auto& [key, value] : args.positional[0].dict().entries) made->set(key, value);
  } else if (!args.positional.empty()) {
    for (const Value& pair : iterate(runtime.meter, args.positional[0])) {
      const std::vector<Value> parts = iterate(runtime.meter, pair);
      if (parts.size() != 2) fail_type("dictionary update sequence element has a length other than 2");
      made->set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : args.named) made->set(make_string(&runtime.meter, name), value);
  return made;
}

Value dict(Runtime& runtime, const Args& args) { return {Kind::dict, build_dict(runtime, args, "dict")}; }

Value make_namespace(Runtime& runtime, const Args& args) {
  auto made = std::make_shared<Namespace>(&runtime.meter);
  made->charge(sizeof(Namespace));
  made->values = build_dict(runtime, args, "namespace");
  runtime.circular.push_back(made);
  return {Kind::object, std::move(made)};
}

// joiner(sep): nothing at the first call, then the separator.
struct Joiner final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "Joiner"; }
  bool callable() const noexcept override { return true; }
  Value call(Runtime& runtime, const Args&) override {
    if (used) return separator;
    used = true;
    return make_string(&runtime.meter, "");
  }

  Value separator;
  bool used = false;
};

Value joiner(Runtime& runtime, const Args& args) {
  const Bound<1> bound("joiner", args, {"sep"});
  auto made = std::make_shared<Joiner>(&runtime.meter);
  made->charge(sizeof(Joiner));
  made->separator = bound.get(0) != nullptr ? *bound.get(0) : make_string(&runtime.meter, ", ");
  nest(*made, made->separator);
  return {Kind::object, std::move(made)};
}

// cycler(a, b, ...): next(), reset(), current.
struct Cycler final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "Cycler"; }
  const Value* attribute(Runtime&, std::string_view name) override {
    if (name == "current") return &items[at];
    return name == "next" ? &next : name == "reset" ? &reset : nullptr;
  }

  std::vector<Value> items;
  std::size_t at = 0;
  Value next, reset;
};

struct CyclerMethod final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "method"; }
  bool callable() const noexcept override { return true; }
  Value call(Runtime&, const Args&) override {
    const std::size_t now = owner->at;
    owner->at = advances ? (now + 1) % owner->items.size() : 0;
    return advances ? owner->items[now] : Value::none();
  }

  void release() noexcept override { owner.reset(); }

  std::shared_ptr<Cycler> owner;
  bool advances = false;
};

Value cycler(Runtime& runtime, const Args& args) {
  if (args.positional.empty()) fail_type("at least one item has to be provided");
  auto made = std::make_shared<Cycler>(&runtime.meter);
  made->charge(sizeof(Cycler) + args.positional.size() * sizeof(Value));
  for (const Value& item : args.positional) nest(*made, item);
  made->items = args.positional;
  for (const bool advances : {true, false}) {
    auto method = std::make_shared<CyclerMethod>(&runtime.meter);
    method->charge(sizeof(CyclerMethod));
    method->owner = made;
    method->advances = advances;
    method->depth = made->depth;
    (advances ? made->next : made->reset) = Value(Kind::object, method);
    runtime.circular.push_back(method);
  }
  return {Kind::object, std::move(made)};
}

Value raise_exception(Runtime& runtime, const Args& args) {
  const Bound<1> bound("raise_exception", args, {"message"});
  const Value message = to_string(runtime.meter, bound.require(0));
  core::fail(ErrorCode::invalid_argument, "{}", message.view());
}

Value strftime_now(Runtime& runtime, const Args& args) {
  const Bound<1> bound("strftime_now", args, {"format"});
  const std::string_view format = bound.require_string(0).view();
  if (format.size() > 4096) fail_type("strftime_now: a format of more than 4096 bytes");
  return make_string(&runtime.meter, format_time(runtime.now, format));
}

struct Entry {
  std::string_view name;
  NativeFunction function;
};

constexpr std::array<Entry, 7> globals = {{
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
}};

}  // namespace

Value find_global(std::string_view name) {
  for (const Entry& entry : globals) {
    if (entry.name == name) return make_function(name, entry.function);
  }
  return {};
}

}  // namespace llminfer::text::jinja
