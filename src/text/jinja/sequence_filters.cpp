// Filters on sequences.
#include <algorithm>
#include <array>

#include "text/jinja/access.h"
#include "text/jinja/arguments.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_ops.h"

namespace llminfer::text::jinja {
namespace {

Value make_iterator(Runtime& runtime, std::vector<Value> items) {
  return make_sequence(&runtime.meter, Kind::iterator, std::move(items), "generator");
}

// Strings that differ only in case sort and compare as equal unless a filter is told otherwise.
Value folded(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return change_case(runtime.meter, value, Case::lower);
}

// ---- order

struct Keyed {
  std::vector<Value> keys;
  Value value;
};

void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reversed) {
  runtime.meter.step(1 + items.size());
  const auto before = [&](const Keyed& a, const Keyed& b) {
    runtime.meter.step();
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      if (equal(a.keys[i], b.keys[i])) continue;
      return less(runtime.meter, a.keys[i], b.keys[i]);
    }
    return false;
  };
  if (reversed) {
    std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) { return before(b, a); });
  } else {
    std::stable_sort(items.begin(), items.end(), before);
  }
}

/// A list of what the keys belong to.
Value values_of(Runtime& runtime, std::vector<Keyed>& items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (Keyed& item : items) out.push_back(std::move(item.value));
  return make_list(runtime.meter, std::move(out));
}

Value sort(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<3> bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool sensitive = bound.flag(1, false);
  std::vector<Value> paths;
  if (bound.get(2) != nullptr && bound.get(2)->is_string()) {
    const Value comma = make_string(&runtime.meter, ",");
    paths = split(runtime.meter, *bound.get(2), &comma, -1, false);
  } else if (bound.get(2) != nullptr && !bound.get(2)->is_none()) {
    paths.push_back(*bound.get(2));
  }
  std::vector<Keyed> items;
  for (const Value& item : iterate(runtime.meter, input)) {
    Keyed keyed{{}, item};
    if (paths.empty()) keyed.keys.push_back(folded(runtime, item, sensitive));
    for (const Value& path : paths) keyed.keys.push_back(folded(runtime, get_path(runtime, item, path), sensitive));
    items.push_back(std::move(keyed));
  }
  sort_keyed(runtime, items, bound.flag(0, false));
  return values_of(runtime, items);
}

Value dictsort(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<3> bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.string(1) != nullptr ? bound.string(1)->view() : "key";
  if (by != "key" && by != "value") fail_type("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is(Kind::dict)) fail_type("'" + std::string(type_name(input)) + " object' has no attribute 'items'");
  std::vector<Keyed> items;
  for (const auto& [key, value] : input.dict().entries) {
    const Value& sorted = by == "key" ? key : value;
    items.push_back(
        {{folded(runtime, sorted, bound.flag(0, false))}, make_sequence(&runtime.meter, Kind::tuple, {key, value})});
  }
  sort_keyed(runtime, items, bound.flag(2, false));
  return values_of(runtime, items);
}

template <bool smallest>
Value extreme(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("min", args, {"case_sensitive", "attribute"});
  const std::vector<Value> items = iterate(runtime.meter, input);
  if (items.empty()) return make_undefined("No aggregated item, sequence was empty.", &runtime.meter);
  const auto key = [&](const Value& item) {
    const bool direct = bound.get(1) == nullptr || bound.get(1)->is_none();
    return folded(runtime, direct ? item : get_path(runtime, item, *bound.get(1)), bound.flag(0, false));
  };
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value each = key(items[i]);
    if (smallest ? less(runtime.meter, each, best_key) : less(runtime.meter, best_key, each)) {
      best = i;
      best_key = std::move(each);
    }
  }
  return items[best];
}

Value unique(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("unique", args, {"case_sensitive", "attribute"});
  const std::shared_ptr<DictPayload> seen = new_dict(&runtime.meter);
  std::vector<Value> out;
  for (const Value& item : iterate(runtime.meter, input)) {
    const bool direct = bound.get(1) == nullptr || bound.get(1)->is_none();
    const Value key = folded(runtime, direct ? item : get_path(runtime, item, *bound.get(1)), bound.flag(0, false));
    if (seen->find(key) != nullptr) continue;
    seen->set(key, Value::none());
    out.push_back(item);
  }
  return make_iterator(runtime, std::move(out));
}

Value reverse(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("reverse", args, {});
  std::vector<Value> items = iterate(runtime.meter, input);
  std::reverse(items.begin(), items.end());
  if (input.is_string()) return join(runtime.meter, make_string(&runtime.meter, ""), items, false);
  if (input.is(Kind::iterator)) return make_list(runtime.meter, std::move(items));
  return make_iterator(runtime, std::move(items));
}

// ---- selection

// The rest of the arguments, behind the first `count`.
Args without_first(const Args& args, std::size_t count) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count), args.positional.end());
  rest.named = args.named;
  return rest;
}

template <bool keep, bool by_attribute>
Value select(Runtime& runtime, const Value& input, const Args& args) {
  if (!truthy(input)) return make_iterator(runtime, {});  // none too, as in Jinja
  const std::size_t first = by_attribute ? 1 : 0;
  if (args.positional.size() < first) fail_type("Missing parameter for attribute name");
  const bool tested = args.positional.size() > first;
  const Args rest = tested ? without_first(args, first + 1) : Args{};
  if (tested && !args.positional[first].is_string()) fail_type("the name of a test must be a string");
  std::vector<Value> out;
  for (const Value& item : iterate(runtime.meter, input)) {
    const Value value = by_attribute ? get_path(runtime, item, args.positional[0]) : item;
    const bool holds = tested ? apply_test(runtime, args.positional[first].view(), value, rest) : truthy(value);
    if (holds == keep) out.push_back(item);
  }
  return make_iterator(runtime, std::move(out));
}

Value map(Runtime& runtime, const Value& input, const Args& args) {
  if (!truthy(input)) return make_iterator(runtime, {});
  std::vector<Value> out;
  if (args.positional.empty()) {
    const Bound<2> bound("map", args, {"attribute", "default"});
    const Value& path = bound.require(0);
    for (const Value& item : iterate(runtime.meter, input)) {
      Value found = get_path(runtime, item, path);
      if (found.is_undefined() && bound.get(1) != nullptr) found = *bound.get(1);
      out.push_back(std::move(found));
    }
    return make_iterator(runtime, std::move(out));
  }
  if (!args.positional[0].is_string()) fail_type("map requires a filter argument");
  const Args rest = without_first(args, 1);
  for (const Value& item : iterate(runtime.meter, input)) {
    out.push_back(apply_filter(runtime, args.positional[0].view(), item, rest));
  }
  return make_iterator(runtime, std::move(out));
}

Value first(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("first", args, {});
  if (input.is(Kind::iterator)) {
    SequencePayload& source = input.sequence();
    if (source.next < source.items.size()) return source.items[source.next++];
  } else if (!input.is_string() && input.is_sequence() && !input.items().empty()) {
    return input.items().front();
  }
  const std::vector<Value> items = iterate(runtime.meter, input);
  return items.empty() ? make_undefined("No first item, sequence was empty.", &runtime.meter) : items.front();
}

Value last(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("last", args, {});
  if (input.is(Kind::iterator)) fail_type("'generator' object is not reversible");
  if (!input.is_string() && input.is_sequence() && !input.items().empty()) return input.items().back();
  const std::vector<Value> items = iterate(runtime.meter, input);
  return items.empty() ? make_undefined("No last item, sequence was empty.", &runtime.meter) : items.back();
}

// ---- whole sequences

Value list(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<0> bound("list", args, {});
  return make_list(runtime.meter, iterate(runtime.meter, input));
}

Value join_filter(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("join", args, {"d", "attribute"});
  std::vector<Value> items = iterate(runtime.meter, input);
  if (bound.get(1) != nullptr && !bound.get(1)->is_none()) {
    for (Value& item : items) item = get_path(runtime, item, *bound.get(1));
  }
  const Value separator =
      bound.get(0) != nullptr ? to_string(runtime.meter, *bound.get(0)) : make_string(&runtime.meter, "");
  return join(runtime.meter, separator, items, true);
}

Value sum(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("sum", args, {"attribute", "start"});
  Value total = bound.get(1) != nullptr ? *bound.get(1) : Value::integer(0);
  for (const Value& item : iterate(runtime.meter, input)) {
    const bool direct = bound.get(0) == nullptr || bound.get(0)->is_none();
    total = arithmetic(runtime.meter, Operator::add, total, direct ? item : get_path(runtime, item, *bound.get(0)));
  }
  return total;
}

Value batch(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("batch", args, {"linecount", "fill_with"});
  const std::int64_t size = to_index(bound.require(0), "batch");
  if (size < 1 || size > 1'000'000) fail_type("batch: the size must be between 1 and 1000000");
  std::vector<Value> out, row;
  for (const Value& item : iterate(runtime.meter, input)) {
    if (static_cast<std::int64_t>(row.size()) == size) out.push_back(make_list(runtime.meter, std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const bool fill = bound.get(1) != nullptr && !bound.get(1)->is_none();
    while (fill && static_cast<std::int64_t>(row.size()) < size) {
      runtime.meter.step();
      row.push_back(*bound.get(1));
    }
    out.push_back(make_list(runtime.meter, std::move(row)));
  }
  return make_iterator(runtime, std::move(out));
}

Value slice(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<2> bound("slice", args, {"slices", "fill_with"});
  const std::int64_t count = to_index(bound.require(0), "slice");
  if (count < 1) fail_type("integer division or modulo by zero");
  const std::vector<Value> items = iterate(runtime.meter, input);
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t each = size / count, longer = size % count;
  std::vector<Value> out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    runtime.meter.step();
    const std::int64_t end = at + each + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + end);
    if (bound.get(1) != nullptr && !bound.get(1)->is_none() && i >= longer) part.push_back(*bound.get(1));
    out.push_back(make_list(runtime.meter, std::move(part)));
    at = end;
  }
  return make_iterator(runtime, std::move(out));
}

Value groupby(Runtime& runtime, const Value& input, const Args& args) {
  const Bound<3> bound("groupby", args, {"attribute", "default", "case_sensitive"});
  const bool sensitive = bound.flag(2, false);
  std::vector<Keyed> items;
  for (const Value& item : iterate(runtime.meter, input)) {
    Value key = get_path(runtime, item, bound.require(0));
    if (key.is_undefined() && bound.get(1) != nullptr) key = *bound.get(1);
    if (key.is_undefined()) fail_undefined(key);
    items.push_back({{folded(runtime, key, sensitive)}, make_sequence(&runtime.meter, Kind::tuple, {key, item})});
  }
  sort_keyed(runtime, items, false);
  std::vector<Value> out;
  for (std::size_t i = 0; i < items.size();) {
    const Value name = items[i].value.items()[0];
    std::vector<Value> group;
    std::size_t end = i;
    for (; end < items.size() && equal(items[end].keys[0], items[i].keys[0]); ++end) {
      group.push_back(items[end].value.items()[1]);
    }
    out.push_back(make_sequence(&runtime.meter, Kind::tuple, {name, make_list(runtime.meter, std::move(group))}));
    i = end;
  }
  return make_list(runtime.meter, std::move(out));
}

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr std::array<Entry, 19> filters = {{
    {"batch", batch},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"join", join_filter},
    {"last", last},
    {"list", list},
    {"map", map},
    {"max", extreme<false>},
    {"min", extreme<true>},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
}};

}  // namespace

Filter find_sequence_filter(std::string_view name) noexcept {
  const auto found =
      std::find_if(filters.begin(), filters.end(), [&](const Entry& entry) { return entry.name == name; });
  return found != filters.end() ? found->filter : nullptr;
}

}  // namespace llminfer::text::jinja
