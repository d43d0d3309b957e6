// One link of the sampler chain, and what it may see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/token_bytes.h"
#include "runtime/sampling/token_counts.h"

namespace llminfer::runtime {

/// What is known when a chain is made. Spans are read during creation only; `bytes` must outlive the chain.
struct LinkContext {
  int vocabulary = 0;
  int context = 0;  ///< most tokens a history can have: bounds scratch and undo memory
  std::span<const Token> stop_tokens{};
  const TokenBytes* bytes = nullptr;
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();  ///< must outlive the chain
  int place = 0;  ///< of the link in the chain: purpose 1 + place is its own random number
};

/// One choice of a token.
struct Step {
  std::span<const Token> history{};
  int new_tokens = 0;
  StepRandom random{};
  TokenCounts* counts = nullptr;  ///< scratch shared by links

  std::span<const Token> window(int tokens) const noexcept {
    return tokens < 0 || static_cast<std::size_t>(tokens) >= history.size()
               ? history
               : history.last(static_cast<std::size_t>(tokens));
  }
};

/// The final distribution's word on the token taken.
struct Chosen {
  Token token = -1;
  double log_probability = 0;
};

/// Links that only look at the history have no state: undoing tokens needs nothing of them. The others keep one entry
/// of undo memory a token, sized at creation, so that no step allocates.
class Link {
 public:
  virtual ~Link() = default;
  /// Edits the candidates. May throw only what a caller's own code throws.
  virtual void apply(Candidates& candidates, const Step& step) = 0;
  /// The chain drew this token; accept(token) may follow, or not.
  virtual void drawn(const Chosen&, const Candidates&) noexcept {}
  virtual void accept(Token) {}
  /// Of a link that only removes tokens: whether it removes any now, and which; clears their bits (id % 32 of word id /
  /// 32).
  virtual bool forbids(int /*new_tokens*/) const noexcept { return false; }
  virtual void forbid(std::span<std::uint32_t>, int /*new_tokens*/) const noexcept {}
  /// It reduces to the k best (0: does not), or leaves the order of logits as it is: a chain that begins with such
  /// links needs no other logits than the k best.
  virtual int keeps_top() const noexcept { return 0; }
  virtual bool keeps_order() const noexcept { return false; }
  virtual void rollback(int) {}
  virtual std::unique_ptr<Link> clone() const = 0;

 protected:
  Link() = default;
  Link(const Link&) = default;
  Link& operator=(const Link&) = default;
};

}  // namespace llminfer::runtime
