#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja/convert.h"
#include "text/jinja/format.h"

namespace llminfer::text::jinja {
namespace {

std::string_view symbol(Operator op) noexcept {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "** or pow()";
    case Operator::less:
      return "<";
    case Operator::less_equal:
      return "<=";
    case Operator::greater:
      return ">";
    case Operator::greater_equal:
      return ">=";
    default:
      return "==";
  }
}

[[noreturn]] void fail_operands(Operator op, const Value& left, const Value& right) {
  fail_type("unsupported operand type(s) for " + std::string(symbol(op)) + ": '" + std::string(type_name(left)) +
            "' and '" + std::string(type_name(right)) + "'");
}

[[noreturn]] void fail_overflow() { fail_type("an integer does not fit in 64 bits"); }
[[noreturn]] void fail_zero() { fail_type("division by zero"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_zero();
  if (b == -1) {
    std::int64_t negated = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &negated)) fail_overflow();
    return negated;
  }
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) fail_zero();
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::divide:
      if (b == 0) fail_zero();
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_divide:
      return Value::integer(floor_divide(a, b));
    case Operator::modulo:
      return Value::integer(modulo(a, b));
    default:
      if (b >= 0) return Value::integer(integer_power(a, b));
      if (a == 0) fail_zero();
      return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (overflow) fail_overflow();
  return Value::integer(result);
}

double real_modulo(double a, double b) {
  if (b == 0) fail_zero();
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value::real(a + b);
    case Operator::subtract:
      return Value::real(a - b);
    case Operator::multiply:
      return Value::real(a * b);
    case Operator::divide:
      if (b == 0) fail_zero();
      return Value::real(a / b);
    case Operator::floor_divide:
      return Value::real((a - real_modulo(a, b)) / b);
    case Operator::modulo:
      return Value::real(real_modulo(a, b));
    default: {
      if (a == 0 && b < 0) fail_zero();
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) fail_type("complex numbers are not supported");
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail_type("a float is out of range");
      return Value::real(power);
    }
  }
}

Value join_strings(Meter& meter, const Value& left, const Value& right) {
  const bool html = left.string().html || right.string().html;
  Builder out(meter);
  for (const Value* part : {&left, &right}) {
    if (html && !part->string().html) {
      add_escaped(out, part->text());
    } else {
      out.add(part->text());
    }
  }
  return out.string(html);
}

bool joinable(const Value& left, const Value& right) {
  return left.kind() == right.kind() && (left.is(Kind::list) || left.is(Kind::tuple));
}

Value join_lists(Meter& meter, const Value& left, const Value& right) {
  meter.step(1 + left.items().size() + right.items().size());
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return make_sequence(&meter, left.kind(), std::move(items));
}

bool repeatable(const Value& value) { return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple); }

Value repeat(Meter& meter, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (value.is_string()) {
    Builder out(meter);
    if (value.text().empty()) return value;
    for (std::size_t i = 0; i < times; ++i) out.add(value.text());
    return out.string();
  }
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && !value.items().empty(); ++i) {
    meter.step(1 + value.items().size());
    if ((items.size() + value.items().size()) * sizeof(Value) > meter.limits().memory_bytes) {
      fail_type("the template's values need more than " + std::to_string(meter.limits().memory_bytes) + " bytes");
    }
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return make_sequence(&meter, value.kind(), std::move(items));
}

bool ordered_sequences(const Value& left, const Value& right) {
  return left.kind() == right.kind() && (left.is(Kind::list) || left.is(Kind::tuple));
}

// -1, 0, 1; the operator is for the message.
int order(Meter& meter, Operator op, const Value& left, const Value& right) {
  const Meter::Level level(meter);
  meter.step();
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) {
      return left.as_integer() < right.as_integer() ? -1 : left.as_integer() > right.as_integer() ? 1 : 0;
    }
    return left.as_real() < right.as_real() ? -1 : left.as_real() > right.as_real() ? 1 : 0;
  }
  if (left.is_string() && right.is_string()) {
    meter.touch(std::min(left.view().size(), right.view().size()));
    const int found = left.view().compare(right.view());
    return found < 0 ? -1 : found > 0 ? 1 : 0;
  }
  if (ordered_sequences(left, right)) {
    const std::size_t common = std::min(left.items().size(), right.items().size());
    for (std::size_t i = 0; i < common; ++i) {
      if (!equal(left.items()[i], right.items()[i])) return order(meter, op, left.items()[i], right.items()[i]);
    }
    const std::size_t a = left.items().size(), b = right.items().size();
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  fail_type("'" + std::string(symbol(op)) + "' not supported between instances of '" + std::string(type_name(left)) +
            "' and '" + std::string(type_name(right)) + "'");
}

bool has_nan(const Value& left, const Value& right) {
  return (left.is(Kind::real) && std::isnan(left.as_real())) || (right.is(Kind::real) && std::isnan(right.as_real()));
}

}  // namespace

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) noexcept {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Value arithmetic(Meter& meter, Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return integers(op, left.as_integer(), right.as_integer());
    return reals(op, left.as_real(), right.as_real());
  }
  if (op == Operator::modulo && left.is_string()) return format_percent(meter, left, right);
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  if (op == Operator::add) {
    if (left.is_string() && right.is_string()) return join_strings(meter, left, right);
    if (joinable(left, right)) return join_lists(meter, left, right);
    if (repeatable(left)) {
      const std::string name(type_name(left));
      fail_type("can only concatenate " + name + " (not \"" + std::string(type_name(right)) + "\") to " + name);
    }
  }
  if (op == Operator::multiply) {
    if (repeatable(left) && right.is_integral()) return repeat(meter, left, right.as_integer());
    if (left.is_integral() && repeatable(right)) return repeat(meter, right, left.as_integer());
  }
  fail_operands(op, left, right);
}

bool contains(Meter& meter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (item.is_undefined()) fail_undefined(item);
      if (!item.is_string()) {
        fail_type("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      }
      meter.touch(container.view().size());
      return find_bytes(container.view(), item.view()) != std::string_view::npos;
    case Kind::dict:
      return container.dict().find(item) != nullptr;
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view:
    case Kind::iterator: {
      const std::vector<Value> items = iterate(meter, container);
      return std::any_of(items.begin(), items.end(), [&](const Value& each) { return equal(each, item); });
    }
    default:
      fail_type("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
}

bool less(Meter& meter, const Value& left, const Value& right) {
  return !has_nan(left, right) && order(meter, Operator::less, left, right) < 0;
}

bool compare(Meter& meter, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::in:
      return contains(meter, right, left);
    case Operator::not_in:
      return !contains(meter, right, left);
    case Operator::equal:
    case Operator::not_equal:
      if (left.is_string() && right.is_string()) meter.touch(std::min(left.view().size(), right.view().size()));
      return equal(left, right) == (op == Operator::equal);
    default:
      break;
  }
  const int found = order(meter, op, left, right);
  if (has_nan(left, right)) return false;
  if (op == Operator::less) return found < 0;
  if (op == Operator::less_equal) return found <= 0;
  return op == Operator::greater ? found > 0 : found >= 0;
}

Value negate(const Value& value, bool minus) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) {
    fail_type("bad operand type for unary " + std::string(minus ? "-" : "+") + ": '" + std::string(type_name(value)) +
              "'");
  }
  if (value.is(Kind::real)) return Value::real(minus ? -value.as_real() : value.as_real());
  if (!minus) return Value::integer(value.as_integer());
  return integers(Operator::subtract, 0, value.as_integer());
}

}  // namespace llminfer::text::jinja
