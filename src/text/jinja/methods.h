// Methods of strings, lists, dicts and numbers: Python's, as far as they change nothing.
#pragma once

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

enum class MethodAccess {
  none,     ///< no such attribute
  allowed,  ///< a method that may be called
  unsafe,   ///< one that the sandbox forbids, since it changes the object
};

MethodAccess method_access(Kind kind, std::string_view name) noexcept;
/// value.name as a callable value; the access must be allowed.
Value bind_method(Runtime& runtime, const Value& value, std::string_view name);
/// value.name(args) without the detour.
Value call_method(Runtime& runtime, const Value& value, std::string_view name, const Args& args);
Value call_string_method(Runtime& runtime, const Value& text, std::string_view name, const Args& args);
bool has_string_method(std::string_view name) noexcept;

}  // namespace llminfer::text::jinja
