#include "text/jinja/library.h"

#include "text/jinja/convert.h"

namespace llminfer::text::jinja {
namespace {

void charge_input(Runtime& runtime, const Value& input) {
  if (input.is_string()) runtime.meter.touch(input.view().size());
  if (input.is_sequence()) runtime.meter.step(1 + input.items().size() / 4);
}

}  // namespace

Filter find_filter(std::string_view name) noexcept {
  if (const Filter found = find_string_filter(name)) return found;
  if (const Filter found = find_sequence_filter(name)) return found;
  return find_value_filter(name);
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Args& args) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail_type("No filter named '" + std::string(name) + "'.");
  charge_input(runtime, input);
  return filter(runtime, input, args);
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Args& args) {
  const Test test = find_test(name);
  if (test == nullptr) fail_type("No test named '" + std::string(name) + "'.");
  charge_input(runtime, input);
  return test(runtime, input, args);
}

}  // namespace llminfer::text::jinja
