// The one place where exceptions become Error values: every public operation runs inside guard().
#pragma once

#include <llminfer/error.hpp>
#include <type_traits>
#include <utility>

namespace llminfer::api {

/// The exception being handled as an Error, with `where` (a static string) as the operation. Call only from a handler.
/// bad_alloc becomes out_of_memory without allocating.
Error current_error(const char* where) noexcept;

/// f's result, or what f threw as an Error.
template <class F>
auto guard(const char* where, F&& f) noexcept {
  using T = std::invoke_result_t<F&>;
  if constexpr (std::is_void_v<T>) {
    try {
      f();
      return Result<void>();
    } catch (...) {
      return Result<void>(current_error(where));
    }
  } else {
    try {
      return Result<T>(f());
    } catch (...) {
      return Result<T>(current_error(where));
    }
  }
}

}  // namespace llminfer::api
