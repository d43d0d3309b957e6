// The border between code that throws and interfaces that return values: exceptions become Errors here and nowhere
// else.
#pragma once

#include <llminfer/error.hpp>
#include <type_traits>
#include <utility>

namespace llminfer::core {

/// The exception being handled, as an Error with `where` (a static string). Call inside a catch block. For bad_alloc it
/// allocates nothing.
Error current_error(const char* where) noexcept;

/// Runs `body` and returns what it returns (a T, void, or a Result already) as a Result; what it throws becomes the
/// Error.
template <class Body>
auto guard(const char* where, Body&& body) noexcept {
  using Value = std::invoke_result_t<Body>;
  if constexpr (std::is_void_v<Value>) {
    try {
      std::forward<Body>(body)();
      return Result<void>();
    } catch (...) {
      return Result<void>(current_error(where));
    }
  } else if constexpr (requires { typename Value::error_type; }) {
    try {
      return std::forward<Body>(body)();
    } catch (...) {
      return Value(current_error(where));
    }
  } else {
    try {
      return Result<Value>(std::forward<Body>(body)());
    } catch (...) {
      return Result<Value>(current_error(where));
    }
  }
}

}  // namespace llminfer::core
