// Small string functions for PTX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptxsim {

std::string_view trim(std::string_view s) noexcept;
/// Without comments; line breaks stay.
std::string strip_comments(std::string_view s);
/// At commas outside of braces, brackets and parentheses; parts are trimmed, an empty last one is left out.
std::vector<std::string_view> split_operands(std::string_view s);
std::vector<std::string_view> split(std::string_view s, char at);
/// Words, separated by spaces.
std::vector<std::string_view> words(std::string_view s);

}  // namespace ptxsim
