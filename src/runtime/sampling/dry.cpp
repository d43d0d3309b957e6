#include <algorithm>
#include <string>

#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

struct Repeat {
  Token token;
  int length;
};

class DryLink final : public Link {
 public:
  DryLink(const Dry& spec, const TokenBytes* bytes, std::size_t window, std::pmr::memory_resource* memory)
      : spec_(spec), bytes_(bytes), lengths_(window, memory), repeats_(memory) {
    repeats_.reserve(window);
    if (spec.base > 1.000001f) max_exponent_ = static_cast<int>(88.7228391 / log64(spec.base));  // e^88.7: float's end
  }

  void apply(Candidates& candidates, const Step& step) override {
    const auto tokens = step.window(static_cast<int>(lengths_.size()));
    const int limit = after_last_breaker(tokens);
    if (static_cast<int>(tokens.size()) <= spec_.allowed_length || limit < spec_.allowed_length) return;
    find_repeats(tokens, limit);
    Token last = -1;
    for (const Repeat& repeat : repeats_) {  // the longest of a token comes first
      if (repeat.token == last) continue;
      last = repeat.token;
      if (!contains_breaker(repeat.token)) penalise(candidates, repeat);
    }
  }
  std::unique_ptr<Link> clone() const override {
    return std::make_unique<DryLink>(spec_, bytes_, lengths_.size(), lengths_.get_allocator().resource());
  }

 private:
  void penalise(Candidates& candidates, const Repeat& repeat) const noexcept {
    int exponent = repeat.length - spec_.allowed_length;
    if (max_exponent_ > 0) exponent = std::min(exponent, max_exponent_);
    const double penalty = static_cast<double>(spec_.multiplier) * pow64(spec_.base, exponent);
    candidates.set(repeat.token, candidates.logit(repeat.token) - penalty);
  }

  bool contains_breaker(Token token) const noexcept {
    return std::any_of(spec_.breakers.begin(), spec_.breakers.end(), [&](const std::string& breaker) {
      return bytes_->bytes(token).find(breaker) != std::string_view::npos;
    });
  }

  // Index of the token in which `breaker`, beginning in token `first` at byte `at`, ends; -1 if it is not there.
  std::ptrdiff_t ends_in(std::string_view breaker, std::span<const Token> tokens, std::size_t first,
                         std::size_t at) const noexcept {
    for (std::size_t t = first; t < tokens.size(); ++t) {
      const auto text = bytes_->bytes(tokens[t]).substr(t == first ? at : 0);
      const std::size_t count = std::min(text.size(), breaker.size());
      if (text.substr(0, count) != breaker.substr(0, count)) return -1;
      breaker.remove_prefix(count);
      if (breaker.empty()) return static_cast<std::ptrdiff_t>(t);
    }
    return -1;
  }

  // How many whole tokens follow the last breaker of the text.
  int after_last_breaker(std::span<const Token> tokens) const noexcept {
    for (std::size_t t = tokens.size(); t-- > 0 && !spec_.breakers.empty();) {
      std::ptrdiff_t end = -1;
      const auto text = bytes_->bytes(tokens[t]);
      for (const std::string& breaker : spec_.breakers) {
        for (auto at = text.find(breaker[0]); at != std::string_view::npos; at = text.find(breaker[0], at + 1)) {
          end = std::max(end, ends_in(breaker, tokens, t, at));
        }
      }
      if (end >= 0) return static_cast<int>(static_cast<std::ptrdiff_t>(tokens.size()) - 1 - end);
    }
    return static_cast<int>(tokens.size());
  }

  // With the tokens read backwards as r, lengths_[k] = how far r and r[k...] agree (the Z-algorithm: linear): the last
  // that many tokens of the text also end k tokens before its end, and were followed there by r[k - 1].
  void find_repeats(std::span<const Token> tokens, int limit) noexcept {
    const auto n = static_cast<int>(tokens.size());
    const auto r = [&](int i) { return tokens[static_cast<std::size_t>(n - 1 - i)]; };
    const auto length = [&](int k) -> int& { return lengths_[static_cast<std::size_t>(k)]; };
    repeats_.clear();
    int left = 0;  // the agreement r[left, right) = r[0, right - left) that reaches furthest
    int right = 0;
    for (int k = 1; k < n; ++k) {
      int z = k < right ? std::min(right - k, length(k - left)) : 0;
      while (k + z < n && r(z) == r(k + z)) ++z;
      length(k) = z;
      if (k + z > right) {
        left = k;
        right = k + z;
      }
      if (std::min(z, limit) >= spec_.allowed_length) repeats_.push_back({r(k - 1), std::min(z, limit)});
    }
    std::sort(repeats_.begin(), repeats_.end(), [](const Repeat& a, const Repeat& b) {
      return a.token < b.token || (a.token == b.token && a.length > b.length);
    });
  }

  Dry spec_;
  const TokenBytes* bytes_;
  int max_exponent_ = 0;           // 0: no bound needed, base is 1
  std::pmr::vector<int> lengths_;  // scratch, as long as the window
  std::pmr::vector<Repeat> repeats_;
};

}  // namespace

LinkPointer make_link(const Dry& spec, const LinkContext& context) {
  if (spec.multiplier == 0 || spec.window == 0) return nullptr;
  const int window = spec.window < 0 ? context.context : std::min(spec.window, context.context);
  return std::make_unique<DryLink>(spec, context.bytes, static_cast<std::size_t>(window), context.memory);
}

}  // namespace llminfer::runtime
