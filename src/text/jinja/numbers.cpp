#include "text/jinja/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/fail.h"
#include "text/jinja/characters.h"

namespace llminfer::text::jinja {
namespace {

constexpr int most_digits = 300;  // of precision asked for
constexpr std::size_t buffer_size = 1024;

std::string special(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

std::string to_text(double value, std::chars_format format, int precision) {
  if (!std::isfinite(value)) return special(value);
  if (precision < 0 || precision > most_digits) {
    core::fail(ErrorCode::invalid_argument, "precision {} of a number: 0 to {} are allowed", precision, most_digits);
  }
  std::array<char, buffer_size> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), result.ptr};
}

std::string_view strip(std::string_view text) {
  std::size_t begin = 0, end = text.size();
  while (begin < end && is_space(decode_character(text, begin).code)) begin += decode_character(text, begin).size;
  while (end > begin) {
    const std::size_t start = previous_character(text, end);
    if (!is_space(decode_character(text, start).code)) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

// Without white space and without the underscores that Python allows between digits; nothing if they are misplaced.
std::optional<std::string> clean_digits(std::string_view text) {
  text = strip(text);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto word = [&](std::size_t k) {
      return k < text.size() && std::isalnum(static_cast<unsigned char>(text[k]));
    };
    if (i == 0 || !word(i - 1) || !word(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string float_repr(double value) {
  if (!std::isfinite(value)) return special(value);
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  std::string sign;
  if (text[0] == '-') sign = "-", text.remove_prefix(1);
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::string_view power = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const std::string size = std::to_string(std::abs(exponent));
    return out + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent) + 1;
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

std::string float_fixed(double value, int precision) { return to_text(value, std::chars_format::fixed, precision); }

std::string float_scientific(double value, int precision) {
  return to_text(value, std::chars_format::scientific, precision);
}

std::string float_general(double value, int precision, bool keep_zeros) {
  std::string text = to_text(value, std::chars_format::general, precision);
  if (!keep_zeros || !std::isfinite(value) || text.find('.') != std::string::npos) return text;
  return text + ".";
}

double round_decimal(double value, int digits) {
  if (!std::isfinite(value) || digits > most_digits) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, std::min(-digits, most_digits));
    return std::nearbyint(value / scale) * scale;
  }
  const std::string text = float_fixed(value, digits);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  const std::optional<std::string> clean = clean_digits(text);
  if (!clean || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  std::string_view digits = *clean;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + std::string(digits);
  std::int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto result = std::from_chars(signed_digits.data(), end, value, base);
  if (result.ec == std::errc::result_out_of_range) {
    core::fail(ErrorCode::invalid_argument, "the integer {} does not fit in 64 bits", signed_digits.substr(0, 40));
  }
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<std::string> clean = clean_digits(text);
  if (!clean) return std::nullopt;
  std::string_view digits = *clean;
  if (!digits.empty() && digits[0] == '+') {
    digits.remove_prefix(1);
    if (!digits.empty() && digits[0] == '-') return std::nullopt;
  }
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  if (digits.empty() || result.ptr != end || digits.back() == ')') return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    return digits.find('-', 1) != std::string_view::npos ? 0.0 : HUGE_VAL;
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace llminfer::text::jinja
