// Bytes of a file made fit for a message: hostile names must not carry control characters into a log or a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llminfer::format {

/// One line of UTF-8 of at most about `limit` bytes: control characters and malformed bytes become escapes (\n, \x07),
/// what is cut off becomes "...".
std::string printable(std::string_view bytes, std::size_t limit = 120);

}  // namespace llminfer::format
