// The escapes of a string literal, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

namespace llminfer::text::jinja {

/// Decodes what stands between the quotes. Returns null, or what is wrong.
const char* decode_string_literal(std::string_view literal, std::string& out);

}  // namespace llminfer::text::jinja
