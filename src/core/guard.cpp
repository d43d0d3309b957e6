#include "core/guard.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace llminfer::core {

Error current_error(const char* where) noexcept {
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

}  // namespace llminfer::core
