#include "text/jinja/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llminfer::text::jinja {
namespace {

constexpr std::array<std::string_view, 7> weekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                      "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {"January",   "February", "March",    "April",
                                                     "May",       "June",     "July",     "August",
                                                     "September", "October",  "November", "December"};

bool leap(int year) noexcept { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

// Days since 0000-03-01 in the proleptic Gregorian calendar.
long day_number(int year, int month, int day) noexcept {
  const long y = month <= 2 ? year - 1 : year;
  const long m = month <= 2 ? month + 9 : month - 3;
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
}

struct Fields {
  explicit Fields(const LocalTime& t) : time(t) {
    weekday = static_cast<int>((day_number(t.year, t.month, t.day) + 3) % 7);
    year_day = static_cast<int>(day_number(t.year, t.month, t.day) - day_number(t.year, 1, 1));
    const int monday_based = (weekday + 6) % 7;
    iso_year = t.year;
    iso_week = (year_day - monday_based + 10) / 7;
    if (iso_week < 1) {
      iso_year = t.year - 1;
      iso_week = weeks(iso_year);
    } else if (iso_week > weeks(t.year)) {
      iso_year = t.year + 1;
      iso_week = 1;
    }
  }
  static int weeks(int year) noexcept {
    const int first = static_cast<int>((day_number(year, 1, 1) + 3) % 7);
    return first == 4 || (first == 3 && leap(year)) ? 53 : 52;
  }

  LocalTime time;
  int weekday = 0, year_day = 0, iso_year = 0, iso_week = 0;
};

std::string number(int value, int width, char pad, char flag) {
  if (flag == '-') width = 0;
  if (flag == '_') pad = ' ';
  if (flag == '0') pad = '0';
  std::string digits = std::to_string(value);
  if (static_cast<int>(digits.size()) < width) digits.insert(0, static_cast<std::size_t>(width) - digits.size(), pad);
  return digits;
}

std::string word(std::string_view text, std::size_t size, char flag) {
  std::string out(text.substr(0, size));
  if (flag == '^') {
    std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  }
  return out;
}

std::string directive(const Fields& f, char letter, char flag) {
  const LocalTime& t = f.time;
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  constexpr std::size_t whole = std::string_view::npos;
  const auto weekday = weekdays[static_cast<std::size_t>(f.weekday)];
  const auto month = months[static_cast<std::size_t>(t.month - 1)];
  switch (letter) {
    case 'a':
      return word(weekday, 3, flag);
    case 'A':
      return word(weekday, whole, flag);
    case 'b':
    case 'h':
      return word(month, 3, flag);
    case 'B':
      return word(month, whole, flag);
    case 'c':
      return format_time(t, "%a %b %e %H:%M:%S %Y");
    case 'C':
      return number(t.year / 100, 2, '0', flag);
    case 'd':
      return number(t.day, 2, '0', flag);
    case 'D':
    case 'x':
      return format_time(t, "%m/%d/%y");
    case 'e':
      return number(t.day, 2, ' ', flag);
    case 'f':
      return "000000";
    case 'F':
      return format_time(t, "%Y-%m-%d");
    case 'g':
      return number(f.iso_year % 100, 2, '0', flag);
    case 'G':
      return number(f.iso_year, 4, '0', flag);
    case 'H':
      return number(t.hour, 2, '0', flag);
    case 'I':
      return number(hour12, 2, '0', flag);
    case 'j':
      return number(f.year_day + 1, 3, '0', flag);
    case 'k':
      return number(t.hour, 2, ' ', flag);
    case 'l':
      return number(hour12, 2, ' ', flag);
    case 'm':
      return number(t.month, 2, '0', flag);
    case 'M':
      return number(t.minute, 2, '0', flag);
    case 'n':
      return "\n";
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 'r':
      return format_time(t, "%I:%M:%S %p");
    case 'R':
      return format_time(t, "%H:%M");
    case 'S':
      return number(t.second, 2, '0', flag);
    case 't':
      return "\t";
    case 'T':
    case 'X':
      return format_time(t, "%H:%M:%S");
    case 'u':
      return std::to_string(f.weekday == 0 ? 7 : f.weekday);
    case 'U':
      return number((f.year_day + 7 - f.weekday) / 7, 2, '0', flag);
    case 'V':
      return number(f.iso_week, 2, '0', flag);
    case 'w':
      return std::to_string(f.weekday);
    case 'W':
      return number((f.year_day + 7 - (f.weekday + 6) % 7) / 7, 2, '0', flag);
    case 'y':
      return number(t.year % 100, 2, '0', flag);
    case 'Y':
      return number(t.year, 4, '0', flag);
    case 'z':
    case 'Z':
      return "";
    case '%':
      return "%";
    default:
      return fmt::format("%{}{}", flag == '\0' ? std::string() : std::string(1, flag), letter);
  }
}

}  // namespace

std::string format_time(const LocalTime& time, std::string_view format) {
  const Fields fields(time);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    char flag = '\0';
    if (std::string_view("-_0^#").find(format[i + 1]) != std::string_view::npos && i + 2 < format.size())
      flag = format[++i];
    out += directive(fields, format[++i], flag);
  }
  return out;
}

}  // namespace llminfer::text::jinja
