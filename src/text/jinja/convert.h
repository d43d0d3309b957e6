// Values to truth, text, numbers and items, as Python converts them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/builder.h"
#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

bool truthy(const Value& value);
/// str(value) and repr(value).
void add_text(Builder& out, const Value& value);
void add_repr(Builder& out, const Value& value);
/// str(value) as a string value; strings pass as they are.
Value to_string(Meter& meter, const Value& value);
/// html-escaped text.
void add_escaped(Builder& out, const SpannedText& text);
Value escape_html(Meter& meter, const Value& value);

/// len(value).
std::int64_t length(const Value& value);
bool is_iterable(const Value& value);
/// Everything that iterating gives; empties an iterator.
std::vector<Value> iterate(Meter& meter, const Value& value);
/// The characters of a string, as strings.
std::vector<Value> characters_of(Meter& meter, const Value& text);
/// Bytes [begin, end) of a string.
Value substring(Meter& meter, const Value& text, std::size_t begin, std::size_t end);

/// An int argument; `what` names it in the error.
std::int64_t to_index(const Value& value, std::string_view what);
/// The failure of an operation on an undefined value.
[[noreturn]] void fail_undefined(const Value& value);
[[noreturn]] void fail_type(std::string message);

}  // namespace llminfer::text::jinja
