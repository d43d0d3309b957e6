// The text of a token, as samplers that look for strings need it.
#pragma once

#include <llminfer/types.hpp>
#include <string_view>

namespace llminfer::runtime {

/// Implemented over a tokenizer.
class TokenBytes {
 public:
  virtual ~TokenBytes() = default;
  /// What the token adds to the text; empty for control tokens. The view lives as long as this object. Any thread.
  virtual std::string_view bytes(Token token) const noexcept = 0;
};

}  // namespace llminfer::runtime
