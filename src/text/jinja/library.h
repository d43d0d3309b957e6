// The filters, tests and global functions that templates may use.
#pragma once

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

using Filter = Value (*)(Runtime&, const Value& input, const Args&);
using Test = bool (*)(Runtime&, const Value& input, const Args&);

/// Null if there is none of that name.
Filter find_filter(std::string_view name) noexcept;
Test find_test(std::string_view name) noexcept;

/// value | name(args) and value is name(args): an unknown name is an error; the input's size is charged.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Args& args);
bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Args& args);

/// range, dict, namespace, joiner, cycler, raise_exception, strftime_now; undefined for other names.
Value find_global(std::string_view name);

// The tables of find_filter, by the file that holds them.
Filter find_string_filter(std::string_view name) noexcept;
Filter find_sequence_filter(std::string_view name) noexcept;
Filter find_value_filter(std::string_view name) noexcept;

}  // namespace llminfer::text::jinja
