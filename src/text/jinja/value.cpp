#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/characters.h"

namespace llminfer::text::jinja {
namespace {

constexpr std::size_t few_keys = 8;
constexpr std::size_t payload_bytes = 96;  // a shared_ptr's block and the payload's own fields, roughly
constexpr int constant_depth = 200;        // constants nest no deeper than the parser allows; other values: Limits

bool hashable(const Value& value) {
  if (value.is(Kind::tuple)) return std::all_of(value.items().begin(), value.items().end(), hashable);
  return !value.is(Kind::list) && !value.is(Kind::dict) && !value.is(Kind::view);
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
}

bool equal_dicts(const DictPayload& a, const DictPayload& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

void count_step(const Value& value, std::size_t size) {
  if (value.payload()->meter != nullptr) value.payload()->meter->step(1 + size / 8);
}

}  // namespace

void nest(Payload& parent, const Value& child) {
  const int limit = parent.meter != nullptr ? parent.meter->limits().value_depth : constant_depth;
  if (child.depth() >= limit) {
    core::fail(ErrorCode::invalid_argument, "a value nests deeper than {} lists and dicts", limit);
  }
  parent.depth = std::max(parent.depth, child.depth() + 1);
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
    return a.as_real() == b.as_real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string:
      count_step(a, a.view().size() / 8);
      return a.view() == b.view();
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      count_step(a, a.items().size());
      return equal_items(a.items(), b.items());
    case Kind::dict:
      count_step(a, a.dict().entries.size());
      return equal_dicts(a.dict(), b.dict());
    case Kind::undefined:
    case Kind::none:
      return true;
    default:
      return a.payload() == b.payload();
  }
}

std::string_view type_name(const Value& value) noexcept {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.string().html ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
    case Kind::iterator:
      return value.sequence().name;
    case Kind::object:
      return value.object().type_name();
  }
  return "object";
}

Value Object::call(Runtime&, const Args&) {
  core::fail(ErrorCode::invalid_argument, "'{}' object is not callable", type_name());
}

std::size_t DictPayload::find_index(const Value& key) const {
  if (key.is_string() && entries.size() > few_keys) {
    const auto found = index_.find(key.view());
    return found == index_.end() ? entries.size() : found->second;
  }
  if (meter != nullptr) meter->step(1 + entries.size() / 8);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (equal(entries[i].first, key)) return i;
  }
  return entries.size();
}

const Value* DictPayload::find(const Value& key) const {
  if (!hashable(key)) core::fail(ErrorCode::invalid_argument, "unhashable type: '{}'", jinja::type_name(key));
  const std::size_t i = find_index(key);
  return i < entries.size() ? &entries[i].second : nullptr;
}

const Value* DictPayload::find(std::string_view key) const {
  if (entries.size() > few_keys) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.view() == key) return &value;
  }
  return nullptr;
}

void DictPayload::set(Value key, Value value) {
  if (!hashable(key)) core::fail(ErrorCode::invalid_argument, "unhashable type: '{}'", jinja::type_name(key));
  nest(*this, key);
  nest(*this, value);
  const std::size_t i = find_index(key);
  if (i < entries.size()) {
    entries[i].second = std::move(value);
    return;
  }
  charge(2 * sizeof(Value) + (entries.size() >= few_keys ? payload_bytes : 0));
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() == few_keys + 1) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
      if (entries[k].first.is_string()) index_.emplace(entries[k].first.view(), k);
    }
  } else if (entries.size() > few_keys && entries.back().first.is_string()) {
    index_.emplace(entries.back().first.view(), entries.size() - 1);
  }
}

Value make_undefined(std::string message, Meter* meter) {
  auto payload = std::make_shared<UndefinedPayload>(meter);
  payload->charge(payload_bytes + message.size());
  payload->message = std::move(message);
  return {Kind::undefined, std::move(payload)};
}

Value make_string(Meter* meter, SpannedText text, bool html) {
  auto payload = std::make_shared<StringPayload>(meter);
  payload->charge(payload_bytes + text.size() + text.runs().size() * sizeof(Run));
  if (meter != nullptr) meter->touch(text.size());
  payload->text = std::move(text);
  payload->characters = count_characters(payload->text.view());
  payload->html = html;
  return {Kind::string, std::move(payload)};
}

Value make_sequence(Meter* meter, Kind kind, std::vector<Value> items, std::string name) {
  auto payload = std::make_shared<SequencePayload>(meter);
  payload->charge(payload_bytes + items.size() * sizeof(Value) + name.size());
  if (meter != nullptr) meter->step(1 + items.size() / 8);
  for (const Value& item : items) nest(*payload, item);
  payload->items = std::move(items);
  payload->name = std::move(name);
  return {kind, std::move(payload)};
}

std::shared_ptr<DictPayload> new_dict(Meter* meter) {
  auto payload = std::make_shared<DictPayload>(meter);
  payload->charge(payload_bytes);
  return payload;
}

}  // namespace llminfer::text::jinja
