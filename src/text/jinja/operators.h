// Operators between values, with Python's rules and messages.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

/// add ... power.
Value arithmetic(Meter& meter, Operator op, const Value& left, const Value& right);
/// equal ... not_in.
bool compare(Meter& meter, Operator op, const Value& left, const Value& right);
/// left < right, else a TypeError.
bool less(Meter& meter, const Value& left, const Value& right);
bool contains(Meter& meter, const Value& container, const Value& item);
Value negate(const Value& value, bool minus);
/// Where `needle` starts in text[from ...); npos if nowhere. Linear time.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0) noexcept;

}  // namespace llminfer::text::jinja
