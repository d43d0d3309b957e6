// Python's two ways to format: 'text %s' % values, and 'text {}'.format(values).
#pragma once

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

/// format % value: a tuple gives several values, a dict named ones.
Value format_percent(Meter& meter, const Value& format, const Value& value);
/// str.format.
Value format_braces(Runtime& runtime, const Value& format, const Args& args);

}  // namespace llminfer::text::jinja
