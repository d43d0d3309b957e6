// String operations that filters and methods share. Each keeps the origin of every byte.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

enum class Case { upper, lower, title, capitalize, swap };
Value change_case(Meter& meter, const Value& text, Case how);

/// Strips white space (chars null) or any of the characters in `chars`.
Value strip(Meter& meter, const Value& text, const Value* chars, bool left, bool right);
/// At most `count` replacements; negative: all.
Value replace(Meter& meter, const Value& text, const Value& from, const Value& to, std::int64_t count);
/// By white space (separator null) or a separator; at most `count` splits, negative: all; from the right end or the
/// left.
std::vector<Value> split(Meter& meter, const Value& text, const Value* separator, std::int64_t count, bool from_right);
std::vector<Value> split_lines(Meter& meter, const Value& text, bool keep_ends);
/// Padded to `width` characters with `fill` on the left and the right.
enum class Align { left, right, center };
Value align(Meter& meter, const Value& text, std::int64_t width, const Value* fill, Align how);
Value join(Meter& meter, const Value& separator, const std::vector<Value>& parts, bool convert);

}  // namespace llminfer::text::jinja
