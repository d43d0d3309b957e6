// Runs a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

/// The rendered text with its origins. `variables` must be made with runtime.meter. Errors are invalid_argument with
/// line and column; raise_exception's words stand at the end of the message. Runs of one Program may overlap in time.
SpannedText render(const Program& program, Runtime& runtime, const Variables& variables);

}  // namespace llminfer::text::jinja
