#include "interpreter/text.h"

#include <algorithm>

namespace ptxsim {
namespace {
constexpr std::string_view blanks = " \t\r\n";
}

std::string_view trim(std::string_view s) noexcept {
  const std::size_t first = s.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(blanks) - first + 1);
}

std::string strip_comments(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) {
    if (s.compare(i, 2, "//") == 0) {
      while (i < s.size() && s[i] != '\n') ++i;
    } else if (s.compare(i, 2, "/*") == 0) {
      const std::size_t end = s.find("*/", i + 2);
      i = end == std::string_view::npos ? s.size() : end + 2;
    } else if (s[i] == '"') {  // paths have two slashes in places
      const std::size_t end = std::min(s.find('"', i + 1), s.size() - 1);
      out.append(s.substr(i, end + 1 - i));
      i = end + 1;
    } else {
      out.push_back(s[i++]);
    }
  }
  return out;
}

std::vector<std::string_view> split_operands(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      out.push_back(trim(s.substr(start, i - start)));
      start = i + 1;
    }
  }
  const std::string_view last = trim(s.substr(start));
  if (!last.empty()) out.push_back(last);
  return out;
}

std::vector<std::string_view> split(std::string_view s, char at) {
  std::vector<std::string_view> out;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || s[i] == at) {
      out.push_back(s.substr(start, i - start));
      start = i + 1;
    }
  }
  return out;
}

std::vector<std::string_view> words(std::string_view s) {
  std::vector<std::string_view> out;
  std::size_t i = 0;
  while ((i = s.find_first_not_of(blanks, i)) != std::string_view::npos) {
    const std::size_t end = std::min(s.find_first_of(blanks, i), s.size());
    out.push_back(s.substr(i, end - i));
    i = end;
  }
  return out;
}

}  // namespace ptxsim
