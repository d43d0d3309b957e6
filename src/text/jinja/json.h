// JSON text to values and back, with Python's json module as the measure.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/builder.h"

namespace llminfer::text::jinja {

/// Parses JSON; strings and keys get `origin`. Errors are invalid_argument and name `what`. Integers beyond 64 bits are
/// errors.
Value parse_json(Meter& meter, std::string_view json, Origin origin, std::string_view what);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<SpannedText> indent;  ///< of one level; nothing: all on one line
  SpannedText item_separator, key_separator;
};
/// json.dumps.
void add_json(Builder& out, const Value& value, const JsonStyle& style);
/// Separators as json.dumps chooses them without and with indent.
JsonStyle default_json_style(bool indented);

}  // namespace llminfer::text::jinja
