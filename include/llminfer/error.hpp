// Errors are values: every operation that can fail returns Result<T>. Nothing in the library aborts, exits or prints.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {

/// What went wrong, coarse enough to branch on. The details are in Error::message.
enum class ErrorCode {
  invalid_argument,          ///< an option or parameter outside its range; the message names the field and the value
  not_found,                 ///< a file, tensor or device that does not exist
  not_gguf,                  ///< the file does not begin with a model-file magic this library knows
  truncated,                 ///< the file ends before what its header promises
  corrupt,                   ///< a value in the file contradicts itself or another one
  unsupported_type,          ///< a tensor type, tokenizer or file version that the library does not know
  unsupported_architecture,  ///< a model architecture that the library does not know
  out_of_memory,             ///< allocation refused, by the system or by a limit
  context_overflow,          ///< tokens asked for exceed the context; needed and available are set
  out_of_pages,              ///< the KV pool has no free page; needed and available are set
  queue_full,                ///< the batcher's queue is full
  invalid_logits,            ///< the model produced NaN, or every token is forbidden
  callback_failed,           ///< a caller's callback threw
  mismatch,                  ///< two things that must belong together do not (model and saved session, plug-in version)
  cancelled,                 ///< a stop was requested before the result was complete
  device_lost,               ///< the device failed and must be opened again
  unavailable,               ///< the device or feature is not present on this machine
};

/// Name of a code as spelled in the enum, e.g. "out_of_memory". Never null.
LLMINFER_API const char* to_string(ErrorCode code) noexcept;

/// One failure. `where` is a static string that names the operation ("Model::open"), never null.
struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message{};
  const char* where = "";
  std::int64_t needed =
      0;  ///< for context_overflow, out_of_pages, out_of_memory: what was asked (tokens, pages, bytes)
  std::int64_t available = 0;  ///< what there was
};

/// Thrown by Result::value() when there is no value. Also what the library's own parsers throw inside.
class LLMINFER_API Exception : public std::exception {
 public:
  explicit Exception(Error error) noexcept;
  Exception(const Exception&);
  Exception(Exception&&) noexcept;
  Exception& operator=(const Exception&);
  Exception& operator=(Exception&&) noexcept;
  ~Exception() override;
  const char* what() const noexcept override;
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// The only place that throws for Result, out of line so that value() stays small.
[[noreturn]] LLMINFER_API void throw_error(const Error& error);

/// A T or an Error, shaped like std::expected<T, Error>. Copyable and movable as far as T is.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value; throws Exception when there is none. On a temporary it returns by value, so that
  /// `for (auto& x : f().value())` does not dangle.
  T& value() & {
    if (!has_value()) throw_error(error());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    if (!has_value()) throw_error(error());
    return *std::get_if<0>(&state_);
  }
  T value() && {
    if (!has_value()) throw_error(error());
    return std::move(*std::get_if<0>(&state_));
  }

  /// Unchecked access: has_value() must be true.
  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }

  /// Unchecked access: has_value() must be false.
  Error& error() & noexcept { return *std::get_if<1>(&state_); }
  const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
  Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  T value_or(U&& other) && {
    return has_value() ? std::move(*std::get_if<0>(&state_)) : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() noexcept = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw_error(*error_);
  }
  Error& error() & noexcept { return *error_; }
  const Error& error() const& noexcept { return *error_; }
  Error&& error() && noexcept { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace v0
}  // namespace llminfer
