// How often each token occurs in a stretch of history.
#pragma once

#include <cstdint>
#include <llminfer/types.hpp>
#include <memory_resource>
#include <span>
#include <vector>

namespace llminfer::runtime {

/// Scratch: counts are zero between uses, so counting n tokens costs n, not the vocabulary.
class TokenCounts {
 public:
  TokenCounts(int vocabulary, std::pmr::memory_resource* memory)
      : counts_(static_cast<std::size_t>(vocabulary), 0, memory), seen_(memory) {
    seen_.reserve(static_cast<std::size_t>(vocabulary));
  }

  /// Calls visit(token, count) once for each token that occurs; ids outside the vocabulary are passed over.
  template <class Visit>
  void for_each(std::span<const Token> tokens, Visit visit) noexcept {
    seen_.clear();
    for (const Token token : tokens) {
      if (token < 0 || static_cast<std::size_t>(token) >= counts_.size()) continue;
      if (counts_[static_cast<std::size_t>(token)]++ == 0) seen_.push_back(token);
    }
    for (const Token token : seen_) {
      visit(token, counts_[static_cast<std::size_t>(token)]);
      counts_[static_cast<std::size_t>(token)] = 0;
    }
  }

 private:
  std::pmr::vector<std::int32_t> counts_;
  std::pmr::vector<Token> seen_;  // reserved for every token: never reallocates
};

}  // namespace llminfer::runtime
