// What one run of a template shares: its meter, its clock, and the values that may refer to each other in circles.
#pragma once

#include <memory>
#include <vector>

#include "text/jinja/value.h"

namespace llminfer::text::jinja {

/// A civil date and time, for strftime_now.
struct LocalTime {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

class Runtime {
 public:
  Runtime(const Limits& limits, const LocalTime& time) noexcept : meter(limits), now(time) {}

  ~Runtime() {
    for (const auto& object : circular) object->release();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Meter meter;
  LocalTime now;
  /// What can hold a reference to itself: released at the end of the run.
  std::vector<std::shared_ptr<Object>> circular;
};

/// A native function or a bound method as a value.
using NativeFunction = Value (*)(Runtime&, const Args&);
Value make_function(std::string_view name, NativeFunction function);

/// jinja's namespace(): the one value with attributes that a template may set.
struct Namespace final : Object {
  using Object::Object;
  std::string_view type_name() const noexcept override { return "Namespace"; }
  const Value* attribute(Runtime&, std::string_view name) override { return values->find(name); }
  void release() noexcept override { values->entries.clear(); }
  std::shared_ptr<DictPayload> values;
};

}  // namespace llminfer::text::jinja
