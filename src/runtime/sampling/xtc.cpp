#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class XtcLink final : public Link {
 public:
  XtcLink(const Xtc& spec, int place)
      : probability_(spec.probability),
        log_threshold_(log64(spec.threshold)),
        purpose_(static_cast<std::uint32_t>(place) + 1) {}

  void apply(Candidates& candidates, const Step& step) override {
    if (step.random.uniform(purpose_) >= probability_) return;
    const double least = candidates.log_sum_exp() + log_threshold_;
    const auto list = candidates.list();
    const double scale = candidates.scale();
    std::size_t above = 0;
    std::size_t kept = list.size();  // the least probable of those above; of equals the last
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (static_cast<double>(list[i].logit) * scale < least) continue;
      ++above;
      if (kept == list.size() || list[i].logit <= list[kept].logit) kept = i;
    }
    if (above < 2) return;
    const auto order = candidates.order();
    std::size_t count = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i == kept || static_cast<double>(list[i].logit) * scale < least)
        order[count++] = static_cast<std::uint32_t>(i);
    }
    candidates.keep_entries(order.first(count));
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<XtcLink>(*this); }

 private:
  float probability_;
  double log_threshold_;
  std::uint32_t purpose_;
};

}  // namespace

LinkPointer make_link(const Xtc& spec, const LinkContext& context) {
  if (spec.probability <= 0 || spec.threshold > 0.5f) return nullptr;
  return std::make_unique<XtcLink>(spec, context.place);
}

}  // namespace llminfer::runtime
