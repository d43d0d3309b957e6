// The pre-tokenizers that model files name: which rules cut a text into the words that byte-pair merges stay within.
#pragma once

#include <span>
#include <string_view>

namespace llminfer::text {

/// Two passes that a pattern could only do in quadratic time.
inline constexpr std::string_view digits_in_threes_from_the_right = "<digits3>";  // any \p{N}
inline constexpr std::string_view ascii_thousands_boundaries = "<thousands>";     // cut where 3k ASCII digits follow

/// Rules of one or several named pre-tokenizers.
struct PreRules {
  std::span<const std::string_view> names;
  /// One after the other, each over the pieces that the one before it left: every match is a piece, and so is what
  /// lies between two. Perl syntax; \s and \S mean Unicode's White_Space property and its complement.
  std::span<const std::string_view> passes;
  bool ignore_merges = false;  ///< a word that is a token is that token, whatever the merges say
  bool add_bos = false;        ///< default where the file does not say
  bool raw_utf8 = false;       ///< tokens are UTF-8 with U+2581 for spaces and <0xXX> for bytes, not the byte alphabet
};

/// Rules by name; "" means "default". Null for an unknown name.
const PreRules* find_pre_rules(std::string_view name) noexcept;

/// All of them, for tests.
std::span<const PreRules> all_pre_rules() noexcept;

}  // namespace llminfer::text
