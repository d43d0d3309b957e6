// Arguments of a native function or filter by name, as Python binds them.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "text/jinja/convert.h"

namespace llminfer::text::jinja {

/// Binds positional and named arguments to N parameter names; too many or unknown ones are errors.
template <std::size_t N>
class Bound {
 public:
  Bound(std::string_view function, const Args& args, const std::array<std::string_view, N>& names)
      : function_(function), names_(names) {
    if (args.positional.size() > N) {
      core::fail(ErrorCode::invalid_argument, "{}() takes at most {} arguments, {} given", function, N,
                 args.positional.size());
    }
    for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
    for (const auto& [name, value] : args.named) values_[index_of(name)] = &value;
  }

  const Value* get(std::size_t i) const noexcept { return values_[i]; }
  const Value& require(std::size_t i) const {
    if (values_[i] == nullptr) {
      core::fail(ErrorCode::invalid_argument, "{}() misses argument '{}'", function_, names_[i]);
    }
    return *values_[i];
  }
  bool flag(std::size_t i, bool otherwise) const { return values_[i] == nullptr ? otherwise : truthy(*values_[i]); }
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const {
    return values_[i] == nullptr ? otherwise : to_index(*values_[i], names_[i]);
  }
  /// A string argument; none and nothing give null.
  const Value* string(std::size_t i) const {
    if (values_[i] == nullptr || values_[i]->is_none()) return nullptr;
    if (values_[i]->is_undefined()) fail_undefined(*values_[i]);
    if (!values_[i]->is_string()) {
      core::fail(ErrorCode::invalid_argument, "{}(): argument '{}' must be str, not {}", function_, names_[i],
                 type_name(*values_[i]));
    }
    return values_[i];
  }
  const Value& require_string(std::size_t i) const {
    require(i);
    const Value* value = string(i);
    if (value == nullptr) {
      core::fail(ErrorCode::invalid_argument, "{}(): argument '{}' must be str, not NoneType", function_, names_[i]);
    }
    return *value;
  }

 private:
  std::size_t index_of(std::string_view name) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (names_[i] != name) continue;
      if (values_[i] != nullptr) {
        core::fail(ErrorCode::invalid_argument, "{}() got several values for argument '{}'", function_, name);
      }
      return i;
    }
    core::fail(ErrorCode::invalid_argument, "{}() got an unexpected keyword argument '{}'", function_, name);
  }

  std::string_view function_;
  std::array<std::string_view, N> names_;
  std::array<const Value*, N> values_{};
};

}  // namespace llminfer::text::jinja
