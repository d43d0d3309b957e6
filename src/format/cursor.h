// Sequential reading of a source in large pieces: a header of a quarter million strings must not cost as many calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/vector.h"
#include "format/source.h"

namespace llminfer::format {

/// Every read is checked against the end of the source before anything is allocated or read; beyond it: truncated,
/// naming the subject. One thread.
class Cursor {
 public:
  /// The largest take().
  static constexpr std::size_t window = std::size_t{256} << 10;

  /// `memory`: of the window and of what is read through it.
  Cursor(const Source& source, std::stop_token stop, std::shared_ptr<core::Memory> memory);

  const std::shared_ptr<core::Memory>& memory() const noexcept { return memory_; }

  std::uint64_t position() const noexcept { return window_offset_ + at_; }
  std::uint64_t size() const noexcept { return source_.size(); }
  std::uint64_t remaining() const noexcept { return size() - position(); }

  /// What is being read, for messages: "key", "tokenizer.ggml.tokens". The name must outlive the reads.
  void set_subject(const char* kind, std::string_view name) noexcept {
    kind_ = kind;
    name_ = name;
  }
  /// "key 'tokenizer.ggml.tokens'"
  std::string subject() const;

  /// The next bytes, at most `window`; valid until the next read.
  const std::byte* take(std::size_t count) {
    if (count > filled_ - at_) refill(count);
    const std::byte* bytes = data_ + at_;
    at_ += count;
    return bytes;
  }
  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  /// Throws truncated unless so many bytes remain.
  void require(std::uint64_t count) const;
  /// Appends the next `count` bytes to `out`, which grows with what was really read.
  void append_to(std::string& out, std::uint64_t count);
  void append_to(core::Vector<std::byte>& out, std::uint64_t count);
  /// Throws cancelled if a stop was requested.
  void check_stop() const;

 private:
  void refill(std::size_t count);

  const Source& source_;
  std::stop_token stop_;
  const char* kind_ = "header";
  std::string_view name_;
  std::shared_ptr<core::Memory> memory_;
  core::Vector<std::byte> buffer_;   // empty when the source is addressable in place
  const std::byte* data_ = nullptr;  // buffer_ or the mapping
  std::uint64_t window_offset_ = 0;  // where data_ lies in the source
  std::size_t filled_ = 0, at_ = 0;  // bytes in data_, bytes of them consumed
};

}  // namespace llminfer::format
