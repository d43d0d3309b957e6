// Repetition, presence and frequency penalties: pure functions of the history.
#include <algorithm>

#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// The last `window` tokens of the history, cut to the new ones unless the prompt counts.
std::span<const Token> seen(const Step& step, int window, bool prompt) noexcept {
  const auto tokens = step.window(window);
  const auto fresh = static_cast<std::size_t>(step.new_tokens);
  return prompt || tokens.size() <= fresh ? tokens : tokens.last(fresh);
}

class RepetitionLink final : public Link {
 public:
  explicit RepetitionLink(const RepetitionPenalty& spec) : value_(spec.value), window_(spec.window) {}
  void apply(Candidates& candidates, const Step& step) override {
    step.counts->for_each(seen(step, window_, true), [&](Token token, int) {
      const double x = candidates.logit(token);
      candidates.set(token, x > 0 ? x / value_ : x * value_);
    });
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<RepetitionLink>(*this); }

 private:
  double value_;
  int window_;
};

class CountLink final : public Link {
 public:
  CountLink(double presence, double frequency, int window, bool prompt)
      : presence_(presence), frequency_(frequency), window_(window), prompt_(prompt) {}
  void apply(Candidates& candidates, const Step& step) override {
    step.counts->for_each(seen(step, window_, prompt_), [&](Token token, int count) {
      candidates.set(token, candidates.logit(token) - presence_ - frequency_ * count);
    });
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<CountLink>(*this); }

 private:
  double presence_, frequency_;
  int window_;
  bool prompt_;
};

}  // namespace

LinkPointer make_link(const RepetitionPenalty& spec, const LinkContext&) {
  if (spec.value == 1 || spec.window == 0) return nullptr;
  return std::make_unique<RepetitionLink>(spec);
}

LinkPointer make_link(const PresencePenalty& spec, const LinkContext&) {
  if (spec.value == 0 || spec.window == 0) return nullptr;
  return std::make_unique<CountLink>(spec.value, 0, spec.window, spec.prompt);
}

LinkPointer make_link(const FrequencyPenalty& spec, const LinkContext&) {
  if (spec.value == 0 || spec.window == 0) return nullptr;
  return std::make_unique<CountLink>(0, spec.value, spec.window, spec.prompt);
}

}  // namespace llminfer::runtime
