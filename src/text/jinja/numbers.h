// Numbers to text and back as Python does it, whatever the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llminfer::text::jinja {

/// repr(float): the shortest digits that read back as the same number; "1.0", "1e-05", "1e+16", "inf", "nan".
std::string float_repr(double value);
/// "%.*f", "%.*e" and "%.*g" of C with Python's names for infinity.
std::string float_fixed(double value, int precision);
std::string float_scientific(double value, int precision);
std::string float_general(double value, int precision, bool keep_zeros = false);
/// round(value, digits), correctly rounded, half to even.
double round_decimal(double value, int digits);

/// int(text, base) and float(text): white space around and underscores between digits allowed.
std::optional<std::int64_t> parse_integer(std::string_view text, int base = 10);
std::optional<double> parse_real(std::string_view text);

}  // namespace llminfer::text::jinja
