#include "format/metadata.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/fail.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF's numbers are read as they lie in the file");

struct TypeFacts {
  const char* name;
  std::size_t size;
};

constexpr TypeFacts facts[value_types] = {
    {"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},   {"float32", 4},
    {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8},
};

template <class T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

const std::byte* bits_of(const Value& value) noexcept { return reinterpret_cast<const std::byte*>(&value.bits); }

double as_real(ValueType type, const std::byte* bytes) noexcept {
  return type == ValueType::float32 ? static_cast<double>(load<float>(bytes)) : load<double>(bytes);
}

std::string number_text(ValueType type, const std::byte* bytes) {
  if (type == ValueType::boolean) return load<std::uint8_t>(bytes) != 0 ? "true" : "false";
  if (type == ValueType::float32) return fmt::format("{}", load<float>(bytes));
  if (type == ValueType::float64) return fmt::format("{}", load<double>(bytes));
  if (type == ValueType::uint64) return fmt::format("{}", load<std::uint64_t>(bytes));
  return fmt::format("{}", as_integer(type, bytes).value_or(0));
}

std::string array_text(const Value& value) {
  constexpr std::uint64_t shown = 8;
  std::string text = "[";
  for (std::uint64_t i = 0; i < std::min(value.count, shown); ++i) {
    if (i > 0) text += ", ";
    text += value.element == ValueType::string
                ? fmt::format("\"{}\"", printable(value.strings[i], 24))
                : number_text(value.element, value.numbers.data() + i * size_of(value.element));
  }
  return text + (value.count > shown ? ", ...]" : "]");
}

[[noreturn]] void wrong_type(const Value& value, const char* expected) {
  core::fail(ErrorCode::corrupt, "key '{}' is of type {}, not {}", printable(value.key), name_of(value.type), expected);
}

bool is_integer(ValueType type) noexcept {
  return type != ValueType::float32 && type != ValueType::float64 && type != ValueType::boolean &&
         type != ValueType::string && type != ValueType::array;
}

std::int64_t integer_or_fail(const Value& value, ValueType type, const std::byte* bytes) {
  const std::optional<std::int64_t> number = as_integer(type, bytes);
  if (number) return *number;
  core::fail(ErrorCode::corrupt, "key '{}' is {}, above the largest signed 64-bit number", printable(value.key),
             number_text(type, bytes));
}

}  // namespace

const char* name_of(ValueType type) noexcept {
  const auto index = static_cast<std::uint32_t>(type);
  return index < value_types ? facts[index].name : "unknown";
}

std::size_t size_of(ValueType type) noexcept {
  const auto index = static_cast<std::uint32_t>(type);
  return index < value_types ? facts[index].size : 0;
}

std::optional<std::int64_t> as_integer(ValueType type, const std::byte* bytes) noexcept {
  switch (type) {
    case ValueType::uint8:
      return load<std::uint8_t>(bytes);
    case ValueType::int8:
      return load<std::int8_t>(bytes);
    case ValueType::uint16:
      return load<std::uint16_t>(bytes);
    case ValueType::int16:
      return load<std::int16_t>(bytes);
    case ValueType::uint32:
      return load<std::uint32_t>(bytes);
    case ValueType::int32:
      return load<std::int32_t>(bytes);
    case ValueType::int64:
      return load<std::int64_t>(bytes);
    case ValueType::uint64:
      if (load<std::uint64_t>(bytes) > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return load<std::int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

Metadata::Metadata(core::Vector<Value> values)
    : values_(std::move(values)), sorted_(values_.size(), values_.get_allocator()) {
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  // Sorted rather than hashed: no choice of keys makes this slow.
  std::sort(sorted_.begin(), sorted_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return values_[a].key < values_[b].key; });
  const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return values_[a].key == values_[b].key;
  });
  if (twice != sorted_.end()) core::fail(ErrorCode::corrupt, "key '{}' comes twice", printable(values_[*twice].key));
}

const Value* Metadata::find(std::string_view key) const noexcept {
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), key,
                                   [this](std::uint32_t index, std::string_view k) { return values_[index].key < k; });
  return at != sorted_.end() && values_[*at].key == key ? &values_[*at] : nullptr;
}

const Value* Metadata::find_typed(std::string_view key, ValueType type) const {
  const Value* value = find(key);
  if (value && value->type != type) wrong_type(*value, name_of(type));
  return value;
}

core::StringTable Metadata::take_strings(std::string_view key) {
  const Value* value = find_typed(key, ValueType::array);
  if (!value) return {};
  if (value->element != ValueType::string) {
    core::fail(ErrorCode::corrupt, "key '{}' is an array of {}, not of string", key, name_of(value->element));
  }
  return std::exchange(values_[static_cast<std::size_t>(value - values_.data())].strings, {});
}

std::optional<std::string> Metadata::string(std::string_view key) const {
  const Value* value = find_typed(key, ValueType::string);
  if (!value) return std::nullopt;
  return value->text;
}

std::optional<bool> Metadata::boolean(std::string_view key) const {
  const Value* value = find_typed(key, ValueType::boolean);
  if (!value) return std::nullopt;
  return value->bits != 0;
}

std::optional<std::int64_t> Metadata::integer(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (!is_integer(value->type)) wrong_type(*value, "an integer");
  return integer_or_fail(*value, value->type, bits_of(*value));
}

std::optional<double> Metadata::real(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != ValueType::float32 && value->type != ValueType::float64) wrong_type(*value, "float32");
  const double number = as_real(value->type, bits_of(*value));
  if (!std::isfinite(number)) {
    core::fail(ErrorCode::corrupt, "key '{}' is {}, not a finite number", printable(key), number);
  }
  return number;
}

std::optional<std::vector<std::int64_t>> Metadata::integers(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != ValueType::array) return std::vector<std::int64_t>{*integer(key)};
  if (!is_integer(value->element)) wrong_type(*value, "an array of integers");
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    numbers.push_back(integer_or_fail(*value, value->element, value->numbers.data() + i * size_of(value->element)));
  }
  return numbers;
}

std::optional<std::vector<bool>> Metadata::booleans(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != ValueType::array) return std::vector<bool>{*boolean(key)};
  if (value->element != ValueType::boolean) wrong_type(*value, "an array of bool");
  std::vector<bool> flags;
  for (const std::byte byte : value->numbers) flags.push_back(byte != std::byte{0});
  return flags;
}

core::Vector<MetadataEntry> Metadata::describe() const {
  core::Vector<MetadataEntry> entries(values_.get_allocator().memory());
  for (const Value& value : values_) {
    MetadataEntry& entry = entries.emplace_back();
    entry.key = printable(value.key);
    if (value.type == ValueType::array) {
      entry.type = fmt::format("array of {} {}", value.count, name_of(value.element));
      entry.value = array_text(value);
    } else {
      entry.type = name_of(value.type);
      entry.value = value.type == ValueType::string ? printable(value.text) : number_text(value.type, bits_of(value));
    }
  }
  return entries;
}

}  // namespace llminfer::format
