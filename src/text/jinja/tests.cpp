// The tests: `value is name(args)`.
#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/library.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace llminfer::text::jinja {
namespace {

template <Kind kind>
bool is_kind(Runtime&, const Value& value, const Args& args) {
  const Bound<0> bound("test", args, {});
  return value.is(kind);
}

template <bool (*holds)(const Value&)>
bool plain(Runtime&, const Value& value, const Args& args) {
  const Bound<0> bound("test", args, {});
  return holds(value);
}

bool defined(const Value& value) { return !value.is_undefined(); }
bool number(const Value& value) { return value.is_number(); }
bool is_true(const Value& value) { return value.is(Kind::boolean) && value.as_boolean(); }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.as_boolean(); }
bool callable(const Value& value) {
  return value.is_undefined() || (value.is(Kind::object) && value.object().callable());
}
bool escaped(const Value& value) { return value.is_string() && value.string().html; }
bool sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::list) || value.is(Kind::tuple) ||
         value.is(Kind::range) || value.is(Kind::dict);
}

template <Operator op>
bool compares(Runtime& runtime, const Value& value, const Args& args) {
  const Bound<1> bound("test", args, {"other"});
  return compare(runtime.meter, op, value, bound.require(0));
}

template <std::int64_t rest>
bool parity(Runtime& runtime, const Value& value, const Args& args) {
  const Bound<0> bound("test", args, {});
  return equal(arithmetic(runtime.meter, Operator::modulo, value, Value::integer(2)), Value::integer(rest));
}

bool divisible_by(Runtime& runtime, const Value& value, const Args& args) {
  const Bound<1> bound("divisibleby", args, {"num"});
  return equal(arithmetic(runtime.meter, Operator::modulo, value, bound.require(0)), Value::integer(0));
}

template <bool upper>
bool cased(Runtime& runtime, const Value& value, const Args& args) {
  const Bound<0> bound("test", args, {});
  return truthy(call_string_method(runtime, to_string(runtime.meter, value), upper ? "isupper" : "islower", args));
}

bool same_as(Runtime&, const Value& value, const Args& args) {
  const Bound<1> bound("sameas", args, {"other"});
  const Value& other = bound.require(0);
  if (value.kind() != other.kind()) return false;
  return value.payload() != nullptr ? value.payload() == other.payload() : equal(value, other);
}

template <bool filter>
bool exists(Runtime&, const Value& value, const Args& args) {
  const Bound<0> bound("test", args, {});
  if (!value.is_string()) return false;
  return filter ? find_filter(value.view()) != nullptr : find_test(value.view()) != nullptr;
}

struct Entry {
  std::string_view name;
  Test test;
};

// Sorted by name.
constexpr std::array<Entry, 39> tests = {{
    {"!=", compares<Operator::not_equal>},
    {"<", compares<Operator::less>},
    {"<=", compares<Operator::less_equal>},
    {"==", compares<Operator::equal>},
    {">", compares<Operator::greater>},
    {">=", compares<Operator::greater_equal>},
    {"boolean", is_kind<Kind::boolean>},
    {"callable", plain<callable>},
    {"defined", plain<defined>},
    {"divisibleby", divisible_by},
    {"eq", compares<Operator::equal>},
    {"equalto", compares<Operator::equal>},
    {"escaped", plain<escaped>},
    {"even", parity<0>},
    {"false", plain<is_false>},
    {"filter", exists<true>},
    {"float", is_kind<Kind::real>},
    {"ge", compares<Operator::greater_equal>},
    {"greaterthan", compares<Operator::greater>},
    {"gt", compares<Operator::greater>},
    {"in", compares<Operator::in>},
    {"integer", is_kind<Kind::integer>},
    {"iterable", plain<is_iterable>},
    {"le", compares<Operator::less_equal>},
    {"lessthan", compares<Operator::less>},
    {"lower", cased<false>},
    {"lt", compares<Operator::less>},
    {"mapping", is_kind<Kind::dict>},
    {"ne", compares<Operator::not_equal>},
    {"none", is_kind<Kind::none>},
    {"number", plain<number>},
    {"odd", parity<1>},
    {"sameas", same_as},
    {"sequence", plain<sequence>},
    {"string", is_kind<Kind::string>},
    {"test", exists<false>},
    {"true", plain<is_true>},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", cased<true>},
}};

}  // namespace

Test find_test(std::string_view name) noexcept {
  const auto found = std::lower_bound(tests.begin(), tests.end(), name,
                                      [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != tests.end() && found->name == name ? found->test : nullptr;
}

}  // namespace llminfer::text::jinja
