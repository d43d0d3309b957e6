// Writes GGUF files for tests, right or wrong: every count, length and offset can be overridden.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llminfer::test {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& out, const T& value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}
inline void put_text(Bytes& out, std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}
/// Length (or the one given instead), then the bytes.
inline void put_string(Bytes& out, std::string_view text, std::optional<std::uint64_t> length = {}) {
  put(out, length.value_or(text.size()));
  put_text(out, text);
}

/// GGUF's numbers of the value types that T stands for.
template <class T>
constexpr std::uint32_t gguf_type();
template <>
constexpr std::uint32_t gguf_type<std::uint8_t>() {
  return 0;
}
template <>
constexpr std::uint32_t gguf_type<std::int8_t>() {
  return 1;
}
template <>
constexpr std::uint32_t gguf_type<std::uint16_t>() {
  return 2;
}
template <>
constexpr std::uint32_t gguf_type<std::int16_t>() {
  return 3;
}
template <>
constexpr std::uint32_t gguf_type<std::uint32_t>() {
  return 4;
}
template <>
constexpr std::uint32_t gguf_type<std::int32_t>() {
  return 5;
}
template <>
constexpr std::uint32_t gguf_type<float>() {
  return 6;
}
template <>
constexpr std::uint32_t gguf_type<bool>() {
  return 7;
}
template <>
constexpr std::uint32_t gguf_type<std::uint64_t>() {
  return 10;
}
template <>
constexpr std::uint32_t gguf_type<std::int64_t>() {
  return 11;
}
template <>
constexpr std::uint32_t gguf_type<double>() {
  return 12;
}
constexpr std::uint32_t gguf_string = 8, gguf_array = 9;

struct GgufKey {
  std::string name;
  std::uint32_t type = 0;
  Bytes value;
  std::optional<std::uint64_t> name_length{};
};

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t type = 0;
  Bytes data;
  std::optional<std::uint64_t> name_length{};
  std::optional<std::uint32_t> n_dims{};
  std::optional<std::uint64_t> offset{};
};

class GgufBuilder {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< what build() pads to; the key is the caller's to add
  std::optional<std::uint64_t> key_count, tensor_count;
  std::vector<GgufKey> keys;
  std::vector<GgufTensor> tensors;

  /// Each replaces the key of the same name, or adds it.
  template <class T>
  GgufBuilder& number(const std::string& key, T value) {
    Bytes bytes;
    put(bytes, value);
    return raw(key, gguf_type<T>(), std::move(bytes));
  }
  GgufBuilder& string(const std::string& key, std::string_view value) {
    Bytes bytes;
    put_string(bytes, value);
    return raw(key, gguf_string, std::move(bytes));
  }
  /// `count`: written instead of the true number of elements.
  template <class T>
  GgufBuilder& array(const std::string& key, const std::vector<T>& values, std::optional<std::uint64_t> count = {}) {
    Bytes bytes;
    put(bytes, gguf_type<T>());
    put(bytes, count.value_or(values.size()));
    for (const T value : values) put(bytes, value);
    return raw(key, gguf_array, std::move(bytes));
  }
  GgufBuilder& strings(const std::string& key, const std::vector<std::string>& values,
                       std::optional<std::uint64_t> count = {}) {
    Bytes bytes;
    put(bytes, gguf_string);
    put(bytes, count.value_or(values.size()));
    for (const std::string& value : values) put_string(bytes, value);
    return raw(key, gguf_array, std::move(bytes));
  }
  GgufBuilder& raw(const std::string& key, std::uint32_t type, Bytes value);
  GgufBuilder& without(const std::string& key);

  GgufTensor& tensor(std::string name, std::vector<std::uint64_t> dims, std::uint32_t type, Bytes data);
  /// The tensor of that name, which must exist.
  GgufTensor& at(std::string_view name);

  Bytes build() const;
};

/// `count` float32s: small, varied, the same every time.
Bytes float_data(std::size_t count, std::uint32_t seed);

/// A valid model of the llama architecture: 2 layers, width 32, 4 heads of 8 with 2 for K and V, feed-forward 64, 16
/// tokens of a SentencePiece vocabulary with bytes left out; output tied to the embedding; q, k, v in Q8_0, else F32.
GgufBuilder tiny_llama();

}  // namespace llminfer::test
