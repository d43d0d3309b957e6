#include <algorithm>

#include "runtime/sampling/links.h"
#include "runtime/sampling/undo_log.h"

namespace llminfer::runtime {
namespace {

// The curve that turns the distance of p from the target into a logit: quadratic near it, linear in the tails.
constexpr double width = 0.3;
constexpr double peak = 5.0;
constexpr double sharpness = 10.0;

// Exponential moving average of the original p of the tokens taken.
struct Average {
  double sum = 0;
  double weight = 0;
};

class AdaptivePLink final : public Link {
 public:
  AdaptivePLink(const AdaptiveP& spec, const LinkContext& context)
      : target_(spec.target),
        decay_(spec.decay),
        average_{target_ / (1 - decay_), 1 / (1 - decay_)},
        original_(static_cast<std::size_t>(context.vocabulary), context.memory),
        undo_(context.context, context.memory) {}
  AdaptivePLink(const AdaptivePLink& other)
      : Link(other),
        target_(other.target_),
        decay_(other.decay_),
        average_(other.average_),
        pending_(other.pending_),
        pending_p_(other.pending_p_),
        original_(other.original_.size(), other.original_.get_allocator()),
        undo_(other.undo_) {}

  void apply(Candidates& candidates, const Step&) override {
    const auto p = candidates.probabilities();
    const double target = std::clamp(2 * target_ - average_.sum / average_.weight, 0.0, 1.0);
    candidates.apply_scale();
    const auto list = candidates.list();
    for (std::size_t i = 0; i < list.size(); ++i) {
      original_[i] = static_cast<float>(p[i]);
      const double signed_distance = (p[i] - target) / width;
      const double d = signed_distance < 0 ? -signed_distance : signed_distance;
      list[i].logit = static_cast<float>(peak - sharpness * d * d / (1 + d));
    }
  }
  void drawn(const Chosen& chosen, const Candidates& candidates) noexcept override {
    pending_ = chosen.token;
    pending_p_ = static_cast<double>(original_[candidates.find(chosen.token)]);
  }
  void accept(Token token) override {
    undo_.push(average_);
    if (token == pending_) average_ = {pending_p_ + decay_ * average_.sum, 1 + decay_ * average_.weight};
    pending_ = -1;
  }
  void rollback(int count) override {
    undo_.undo(count, average_);
    pending_ = -1;
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<AdaptivePLink>(*this); }

 private:
  double target_, decay_;
  Average average_;
  Token pending_ = -1;
  double pending_p_ = 0;
  std::pmr::vector<float> original_;  // scratch: p before the transform, in the list's order
  UndoLog<Average> undo_;
};

}  // namespace

LinkPointer make_link(const AdaptiveP& spec, const LinkContext& context) {
  return std::make_unique<AdaptivePLink>(spec, context);
}

}  // namespace llminfer::runtime
