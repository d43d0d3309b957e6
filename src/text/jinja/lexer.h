// Template source to tokens, with Jinja's white-space control as chat templates are set up: trim_blocks, lstrip_blocks,
// one newline at the end dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/meter.h"

namespace llminfer::text::jinja {

enum class TokenKind : std::uint8_t {
  data,            ///< text between tags
  variable_begin,  ///< {{
  variable_end,    ///< }}
  block_begin,     ///< {%
  block_end,       ///< %}
  name,
  string,  ///< text is decoded
  integer,
  real,
  symbol,  ///< an operator or bracket
  end,
};

struct Token {
  TokenKind kind;
  std::uint32_t position;  ///< byte offset in the normalised source
  std::string text;
};

/// Every newline as "\n", the last one dropped: what positions count in.
std::string normalise_source(std::string_view source);

/// Tokens of a normalised source, ended by one of kind end. Errors are corrupt and name line and column.
std::vector<Token> tokenize(std::string_view source);

/// Throws `code` with "line L, column C: message". Columns count characters; both start at 1.
[[noreturn]] void fail_at(ErrorCode code, std::string_view source, std::size_t position, const std::string& message);

}  // namespace llminfer::text::jinja
