// Tokens that are forbidden: always, or until enough have been generated.
#include <limits>

#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class BannedTokensLink final : public Link {
 public:
  BannedTokensLink(std::span<const Token> tokens, int until) : tokens_(tokens.begin(), tokens.end()), until_(until) {}
  void apply(Candidates& candidates, const Step& step) override {
    if (step.new_tokens >= until_) return;
    for (const Token token : tokens_) candidates.remove(token);
  }
  bool forbids(int new_tokens) const noexcept override { return new_tokens < until_; }
  void forbid(std::span<std::uint32_t> allowed, int new_tokens) const noexcept override {
    if (!forbids(new_tokens)) return;
    for (const Token token : tokens_) {
      const auto id = static_cast<std::size_t>(token);
      if (token >= 0 && id / 32 < allowed.size()) allowed[id / 32] &= ~(std::uint32_t{1} << id % 32);
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<BannedTokensLink>(*this); }

 private:
  std::vector<Token> tokens_;
  int until_;  // number of new tokens from which on the ban is lifted
};

}  // namespace

LinkPointer make_banned_tokens(std::span<const Token> tokens, const LinkContext&) {
  if (tokens.empty()) return nullptr;
  return std::make_unique<BannedTokensLink>(tokens, std::numeric_limits<int>::max());
}

LinkPointer make_min_new_tokens(int count, const LinkContext& context) {
  if (count == 0 || context.stop_tokens.empty()) return nullptr;
  return std::make_unique<BannedTokensLink>(context.stop_tokens, count);
}

}  // namespace llminfer::runtime
