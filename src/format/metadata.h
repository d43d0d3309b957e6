// The typed key-value pairs of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/string_table.h"
#include "format/model_file.h"

namespace llminfer::format {

/// GGUF's numbers.
enum class ValueType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64
};
constexpr std::uint32_t value_types = 13;

/// "uint32", ...
const char* name_of(ValueType type) noexcept;
/// Bytes of one value; 0 for string and array.
std::size_t size_of(ValueType type) noexcept;

struct Value {
  std::string key;
  ValueType type = ValueType::uint8;
  ValueType element = ValueType::uint8;  ///< of an array: never array itself
  std::uint64_t bits = 0;                ///< a number's bytes, low end first
  std::string text;                      ///< a string
  std::uint64_t count = 0;               ///< elements of an array
  core::Vector<std::byte> numbers;       ///< an array of numbers, as in the file
  core::StringTable strings;             ///< an array of strings
};

/// Access by key with the type checked: a key of another type than asked for is corrupt, a missing one nothing.
class Metadata {
 public:
  /// Takes ownership; throws corrupt naming the first key that comes twice.
  explicit Metadata(core::Vector<Value> values);

  const core::Vector<Value>& values() const noexcept { return values_; }
  const Value* find(std::string_view key) const noexcept;
  /// Takes the strings of an array out of it: the vocabulary is not to exist twice.
  core::StringTable take_strings(std::string_view key);

  std::optional<std::string> string(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// Any integer type.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// float32 or float64, finite; corrupt naming key and value otherwise.
  std::optional<double> real(std::string_view key) const;
  /// An array of any integer type, or one integer: then a single element.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  /// An array of booleans, or one: then a single element.
  std::optional<std::vector<bool>> booleans(std::string_view key) const;

  /// For people to read.
  core::Vector<MetadataEntry> describe() const;

 private:
  const Value* find_typed(std::string_view key, ValueType type) const;
  core::Vector<Value> values_;          // in the file's order
  core::Vector<std::uint32_t> sorted_;  // indices by key
};

/// An integer as the file stores it; nothing for other types or above the int64 range.
std::optional<std::int64_t> as_integer(ValueType type, const std::byte* bytes) noexcept;

}  // namespace llminfer::format
