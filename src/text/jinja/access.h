// Attributes, subscripts and slices of values, as Jinja's sandbox looks them up.
#pragma once

#include "text/jinja/runtime.h"

namespace llminfer::text::jinja {

/// value.name: methods first, then a dict's entries; undefined if there is neither.
Value get_attribute(Runtime& runtime, const Value& value, std::string_view name);
/// value[key]: entries first, then methods.
Value get_item(Runtime& runtime, const Value& value, const Value& key);
/// value[start:stop:step]; null: left out.
Value get_slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop, const Value* step);
/// What the filters map, selectattr, sort, ... mean by an attribute: names and numbers joined by dots.
Value get_path(Runtime& runtime, const Value& value, const Value& path);

}  // namespace llminfer::text::jinja
