#include "api/guard.h"

#include <exception>
#include <new>

namespace llminfer::api {
namespace {

// Short enough to need no memory.
Error out_of_memory(const char* where) noexcept {
  Error error;
  error.code = ErrorCode::out_of_memory;
  error.message = "out of memory";
  error.where = where;
  return error;
}

}  // namespace

Error current_error(const char* where) noexcept {
  try {
    try {
      throw;
    } catch (const Exception& exception) {
      Error error = exception.error();
      error.where = where;
      return error;
    } catch (const std::bad_alloc&) {
      return out_of_memory(where);
    } catch (const std::exception& exception) {
      return Error{ErrorCode::invalid_argument, exception.what(), where, 0, 0};
    }
  } catch (...) {
    // Either no memory for the message, or something that is no std::exception, which nothing in the library throws.
    return out_of_memory(where);
  }
}

}  // namespace llminfer::api
