// Arithmetic on sizes that come from files and options: overflow is an answer, never a wrapped number.
// Each operation comes twice: checked_x gives an optional, x_or_fail throws a typed error that names the quantity.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <llminfer/error.hpp>
#include <optional>
#include <type_traits>
#include <utility>

namespace llminfer::core {

/// Integers of at least 32 bits. Both operands must have the same type: a silent conversion from signed to unsigned
/// would be the very bug that these functions exist to catch. Cast with checked_cast first.
template <class T>
concept CheckedInteger = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool> && (sizeof(T) >= 4);

template <CheckedInteger T>
constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <CheckedInteger T>
constexpr std::optional<T> checked_sub(T a, T b) noexcept {
  T result{};
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <CheckedInteger T>
constexpr std::optional<T> checked_mul(T a, T b) noexcept {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// True if `value` is a power of two. Zero and negative numbers are not.
template <std::integral T>
constexpr bool is_power_of_two(T value) noexcept {
  return value > 0 && (value & (value - 1)) == 0;
}

/// The smallest multiple of `alignment` that is not less than `value`. Nothing if `value` is negative, `alignment` is
/// not a power of two, or the result does not fit.
template <CheckedInteger T>
constexpr std::optional<T> checked_align_up(T value, T alignment) noexcept {
  if (value < 0 || !is_power_of_two(alignment)) return std::nullopt;
  const std::optional<T> sum = checked_add<T>(value, alignment - 1);
  if (!sum) return std::nullopt;
  return static_cast<T>(*sum & ~(alignment - 1));
}

/// ceil(value / divisor) for value >= 0, divisor > 0; cannot overflow.
template <CheckedInteger T>
constexpr T divide_up(T value, T divisor) noexcept {
  return static_cast<T>(value / divisor + (value % divisor != 0 ? 1 : 0));
}

/// `value` as a To, if To can hold it.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) noexcept {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// Throws Exception{code}: "<what>: <a> <operation> <b> is out of range". Two overloads so that no value is misprinted.
[[noreturn]] void fail_overflow(ErrorCode code, const char* what, const char* operation, std::int64_t a,
                                std::int64_t b);
[[noreturn]] void fail_overflow(ErrorCode code, const char* what, const char* operation, std::uint64_t a,
                                std::uint64_t b);

/// The widest type of T's signedness, so that the templates below choose an overload without ambiguity.
template <std::integral T>
using Widest = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;

/// As checked_add; on overflow throws. `what` names the quantity: "bytes of tensor data". The code defaults to corrupt
/// because most sizes come from a file; pass invalid_argument for options.
template <CheckedInteger T>
constexpr T add_or_fail(T a, T b, const char* what, ErrorCode code = ErrorCode::corrupt) {
  if (const std::optional<T> result = checked_add(a, b)) return *result;
  fail_overflow(code, what, "+", Widest<T>{a}, Widest<T>{b});
}

/// As checked_sub; on overflow (for unsigned types: a < b) throws.
template <CheckedInteger T>
constexpr T sub_or_fail(T a, T b, const char* what, ErrorCode code = ErrorCode::corrupt) {
  if (const std::optional<T> result = checked_sub(a, b)) return *result;
  fail_overflow(code, what, "-", Widest<T>{a}, Widest<T>{b});
}

/// As checked_mul; on overflow throws.
template <CheckedInteger T>
constexpr T mul_or_fail(T a, T b, const char* what, ErrorCode code = ErrorCode::corrupt) {
  if (const std::optional<T> result = checked_mul(a, b)) return *result;
  fail_overflow(code, what, "*", Widest<T>{a}, Widest<T>{b});
}

/// As checked_align_up; where that gives nothing, throws.
template <CheckedInteger T>
constexpr T align_up_or_fail(T value, T alignment, const char* what, ErrorCode code = ErrorCode::corrupt) {
  if (const std::optional<T> result = checked_align_up(value, alignment)) return *result;
  fail_overflow(code, what, "aligned to", Widest<T>{value}, Widest<T>{alignment});
}

/// As checked_cast; if To cannot hold the value, throws.
template <std::integral To, std::integral From>
constexpr To cast_or_fail(From value, const char* what, ErrorCode code = ErrorCode::corrupt) {
  if (const std::optional<To> result = checked_cast<To>(value)) return *result;
  fail_overflow(code, what, "as an integer up to", Widest<From>{value},
                static_cast<Widest<From>>(std::numeric_limits<To>::max()));
}

}  // namespace llminfer::core
