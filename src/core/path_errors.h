// Errors of calls that take a path, in one wording.
#pragma once

#include <filesystem>
#include <system_error>

#include "core/fail.h"

namespace llminfer::core {

/// A path with a zero byte inside would name another file to the system than it does to the caller.
inline void refuse_zero_byte(const std::filesystem::path& path) {
  if (path.native().find('\0') == std::filesystem::path::string_type::npos) return;
  fail(ErrorCode::invalid_argument, "path '{}' contains a zero byte", path.c_str());
}

/// `error`: errno of the call that failed.
[[noreturn]] inline void fail_system(ErrorCode code, const char* action, const std::filesystem::path& path, int error) {
  fail(code, "cannot {} '{}': {}", action, path.string(), std::generic_category().message(error));
}

}  // namespace llminfer::core
