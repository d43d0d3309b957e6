// strftime in the C locale, from a given time: no clock, no time zone, no locale of the process.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

/// Python's datetime.strftime for a naive time. Unknown directives are kept as they stand, as glibc does.
std::string format_time(const LocalTime& time, std::string_view format);

}  // namespace llminfer::text::jinja
