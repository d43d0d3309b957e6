#include <cstring>

#include "core/fail.h"
#include "format/gguf.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

[[noreturn]] void fail_key(ErrorCode code, const Value& value, const std::string& what) {
  core::fail(code, "key '{}' {}", printable(value.key), what);
}

void check_header_size(const Cursor& cursor, const Value& value, std::uint64_t more) {
  if (cursor.position() <= GgufLimits::header_bytes && more <= GgufLimits::header_bytes - cursor.position()) return;
  fail_key(ErrorCode::corrupt, value,
           fmt::format("of {} bytes takes the header beyond the limit of {}", more, GgufLimits::header_bytes));
}

void read_key(Cursor& cursor, std::uint64_t index, Value& value) {
  cursor.set_subject("header", {});
  const auto length = cursor.number<std::uint64_t>();
  if (length == 0) core::fail(ErrorCode::corrupt, "key {} has a name of length 0", index);
  if (length > GgufLimits::key_length) {
    core::fail(ErrorCode::corrupt, "key {} has a name of length {}, above the limit of {}", index, length,
               GgufLimits::key_length);
  }
  cursor.append_to(value.key, length);
  cursor.set_subject("key", value.key);
}

ValueType read_type(Cursor& cursor, const Value& value, const char* what) {
  const auto type = cursor.number<std::uint32_t>();
  if (type >= value_types) {
    fail_key(ErrorCode::unsupported_type, value, fmt::format("has {} {}, which is unknown", what, type));
  }
  return static_cast<ValueType>(type);
}

void check_booleans(const Value& value, const std::byte* bytes, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i]);
    if (byte > 1) fail_key(ErrorCode::corrupt, value, fmt::format("has the value {} as a bool", byte));
  }
}

void read_string(Cursor& cursor, Value& value) {
  const auto length = cursor.number<std::uint64_t>();
  cursor.require(length);
  check_header_size(cursor, value, length);
  cursor.append_to(value.text, length);
}

void read_strings(Cursor& cursor, Value& value) {
  constexpr std::uint64_t most_reserved = std::uint64_t{1} << 19;  // the count is no proof of what will really come
  value.strings.reserve(static_cast<std::size_t>(std::min(value.count, most_reserved)), 0);
  std::string longer;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto length = cursor.number<std::uint64_t>();
    if (length <= Cursor::window) {
      const std::byte* bytes = cursor.take(static_cast<std::size_t>(length));
      value.strings.push_back({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length)});
    } else {
      cursor.require(length);
      check_header_size(cursor, value, length);
      longer.clear();
      cursor.append_to(longer, length);
      value.strings.push_back(longer);
    }
    if (i % 65536 == 0) {
      cursor.check_stop();
      check_header_size(cursor, value, 0);
    }
  }
}

void read_array(Cursor& cursor, Value& value) {
  value.element = read_type(cursor, value, "the element type");
  if (value.element == ValueType::array) {
    fail_key(ErrorCode::unsupported_type, value, "is an array of arrays");
  }
  value.count = cursor.number<std::uint64_t>();
  const std::uint64_t least = value.element == ValueType::string ? 8 : size_of(value.element);
  if (value.count > cursor.remaining() / least) {
    fail_key(ErrorCode::truncated, value,
             fmt::format("is an array of {} {}, more than the {} bytes left can hold", value.count,
                         name_of(value.element), cursor.remaining()));
  }
  check_header_size(cursor, value, value.count * least);
  if (value.element == ValueType::string) {
    read_strings(cursor, value);
    return;
  }
  cursor.append_to(value.numbers, value.count * least);
  if (value.element == ValueType::boolean) check_booleans(value, value.numbers.data(), value.count);
}

void read_value(Cursor& cursor, Value& value) {
  value.type = read_type(cursor, value, "the type");
  if (value.type == ValueType::string) return read_string(cursor, value);
  if (value.type == ValueType::array) return read_array(cursor, value);
  const std::size_t size = size_of(value.type);
  const std::byte* bytes = cursor.take(size);
  if (value.type == ValueType::boolean) check_booleans(value, bytes, 1);
  std::memcpy(&value.bits, bytes, size);
}

}  // namespace

Metadata parse_metadata(Cursor& cursor, std::uint64_t keys) {
  core::Vector<Value> values(cursor.memory());
  for (std::uint64_t i = 0; i < keys; ++i) {
    Value value;
    value.numbers = core::Vector<std::byte>(cursor.memory());
    value.strings = core::StringTable(cursor.memory());
    read_key(cursor, i, value);
    read_value(cursor, value);
    check_header_size(cursor, value, 0);
    cursor.check_stop();
    cursor.set_subject("header", {});
    values.push_back(std::move(value));
  }
  return Metadata(std::move(values));
}

}  // namespace llminfer::format
