// Template source to a Program, with Jinja's grammar.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace llminfer::text::jinja {

/// Errors are corrupt, with line and column. Statements that load other templates (include, import, extends, block) are
/// errors.
Program parse(std::string_view source, const Limits& limits = {});

}  // namespace llminfer::text::jinja
