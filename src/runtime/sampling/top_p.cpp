#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// The set is nearly always a handful of tokens: looks at the 64 best, then at 8 times as many until the mass is there.
class TopPLink final : public Link {
 public:
  explicit TopPLink(float p) : p_(p) {}

  void apply(Candidates& candidates, const Step&) override {
    const double normalizer = candidates.log_sum_exp();
    const auto all = static_cast<std::size_t>(candidates.vocabulary());
    for (std::size_t look = 64;; look *= 8) {
      const auto best = candidates.top(look);
      double mass = 0;
      for (std::size_t i = 0; i < best.size(); ++i) {
        mass += exp64(static_cast<double>(best[i].logit) * candidates.scale() - normalizer);
        if (mass >= p_) return candidates.keep_top(i + 1);
      }
      if (look >= all) return;  // rounding left the sum below p: all stay
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TopPLink>(*this); }

 private:
  double p_;
};

}  // namespace

LinkPointer make_link(const TopP& spec, const LinkContext&) {
  return spec.p >= 1 ? nullptr : std::make_unique<TopPLink>(spec.p);
}

}  // namespace llminfer::runtime
