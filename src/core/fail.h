// How code inside the library reports an error: it throws, and src/api/guard.h turns that into an Error value once.
#pragma once

#include <fmt/format.h>

#include <llminfer/error.hpp>
#include <utility>

namespace llminfer::core {

/// Throws Exception{code, formatted message}. `where` is filled in by the guard of the public operation.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Exception(Error{code, fmt::format(format, std::forward<Args>(args)...), "", 0, 0});
}

/// As fail, with the amounts that context_overflow, out_of_pages and out_of_memory carry.
template <class... Args>
[[noreturn]] void fail_amount(ErrorCode code, std::int64_t needed, std::int64_t available,
                              fmt::format_string<Args...> format, Args&&... args) {
  throw Exception(Error{code, fmt::format(format, std::forward<Args>(args)...), "", needed, available});
}

}  // namespace llminfer::core
