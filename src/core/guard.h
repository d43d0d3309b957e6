// The border between code that throws and interfaces that return values: exceptions become Errors here and nowhere
// else.
#pragma once

#include <exception>
#include <llminfer/error.hpp>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

namespace llminfer::core {

/// The exception being handled, as an Error with `where` (a static string). Call inside a catch block. For bad_alloc it
/// allocates nothing.
inline Error current_error(const char* where) noexcept {
  try {
    throw;
  } catch (const Exception& e) {
    try {
      Error error = e.error();
      if (error.where == nullptr || *error.where == '\0') error.where = where;
      return error;
    } catch (...) {
      return Error{e.error().code, {}, where, e.error().needed, e.error().available};
    }
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "out of memory", where, 0, 0};  // fits the string's own buffer
  } catch (const std::length_error&) {
    return Error{ErrorCode::out_of_memory, "too long", where, 0, 0};
  } catch (const std::exception& e) {
    try {
      return Error{ErrorCode::unavailable, e.what(), where, 0, 0};
    } catch (...) {
      return Error{ErrorCode::out_of_memory, "out of memory", where, 0, 0};
    }
  } catch (...) {
    return Error{ErrorCode::callback_failed, "unknown", where, 0, 0};
  }
}

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
