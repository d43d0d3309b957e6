#include "core/checked.h"

#include "core/fail.h"

namespace llminfer::core {

void fail_overflow(ErrorCode code, const char* what, const char* operation, std::int64_t a, std::int64_t b) {
  fail(code, "{}: {} {} {} is out of range", what, a, operation, b);
}

void fail_overflow(ErrorCode code, const char* what, const char* operation, std::uint64_t a, std::uint64_t b) {
  fail(code, "{}: {} {} {} is out of range", what, a, operation, b);
}

}  // namespace llminfer::core
