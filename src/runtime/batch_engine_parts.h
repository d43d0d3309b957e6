// What the files of the batch engine share.
#pragma once

#include <optional>

#include "runtime/batch_request.h"

namespace llminfer::runtime {

/// When the earliest of the request's deadlines that still count is over.
std::optional<Clock::time_point> deadline(const BatchRequest& request) noexcept;

/// Ends a generation before its own end, with what waits in it taken back.
void end_early(BatchRequest& request, Finish finish) noexcept;

/// The same with an Error.
void end_with(BatchRequest& request, Error error) noexcept;

/// Without memory for the message there is an Error without one.
Error make_error(ErrorCode code, const char* message, std::int64_t needed = 0, std::int64_t available = 0) noexcept;

}  // namespace llminfer::runtime
