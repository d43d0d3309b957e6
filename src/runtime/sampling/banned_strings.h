// Strings that must not appear in the new text. They can span tokens, so they are seen only when complete: the chain
// then asks for the last tokens to be taken back and forbids, at that position, the token in which the string begins.
#pragma once

#include <llminfer/types.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/token_bytes.h"

namespace llminfer::runtime {

class BannedStrings {
 public:
  /// What the token just appended means. At most one of the two is above 0.
  struct Finding {
    int take_back = 0;  ///< tokens at the end, the newest included, that must go: a string is complete
    int held = 0;       ///< tokens at the end that may yet have to go: a string may be forming
  };

  BannedStrings() = default;
  BannedStrings(std::span<const std::string> strings, const TokenBytes* bytes);

  bool active() const noexcept { return !patterns_.empty(); }
  /// `history` ends with the new token; `new_tokens` of it were generated. A take_back also notes the ban.
  Finding accept(std::span<const Token> history, int new_tokens) noexcept;
  /// `length` is what is left of the history.
  void rolled_back_to(std::size_t length) noexcept;

  /// Removes what is forbidden at `position`.
  void apply(Candidates& candidates, std::size_t position) const noexcept;
  /// How many tokens are forbidden at `position`: each is one attempt that failed.
  int attempts(std::size_t position) const noexcept;
  /// True when a position has used up its attempts: generation cannot go on.
  bool exhausted() const noexcept { return exhausted_; }

  static constexpr std::size_t max_attempts = 1024;

 private:
  struct Pattern {
    std::string text;
    std::vector<int> fail;  // Knuth-Morris-Pratt: length of the longest proper border of each prefix
    int matched = 0;        // longest prefix that the new text ends with
    bool feed(char c) noexcept;
  };
  struct Ban {
    std::size_t position;
    Token token;
  };

  void rebuild(std::span<const Token> tokens) noexcept;
  int tokens_spanning(std::size_t bytes, std::span<const Token> tokens) const noexcept;

  std::vector<Pattern> patterns_;
  const TokenBytes* bytes_ = nullptr;
  std::size_t longest_ = 0;
  std::vector<Ban> bans_;
  bool stale_ = false;  // `matched` must be computed again: tokens were taken back
  bool exhausted_ = false;
};

}  // namespace llminfer::runtime
