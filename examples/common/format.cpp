#include "format.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace examples {

std::string print(const char* format, ...) {
  std::array<char, 1024> buffer{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  return buffer.data();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < units.size(); ++unit) value /= 1000;
  return print("%.1f %s", value, units[unit]);
}

}  // namespace examples
