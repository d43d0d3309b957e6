#include <algorithm>

#include "runtime/sampling/entropy.h"
#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class DynamicTemperatureLink final : public Link {
 public:
  explicit DynamicTemperatureLink(const DynamicTemperature& spec)
      : low_(std::max(0.0, static_cast<double>(spec.value) - static_cast<double>(spec.range))),
        high_(static_cast<double>(spec.value) + static_cast<double>(spec.range)),
        exponent_(spec.exponent) {}

  void apply(Candidates& candidates, const Step&) override {
    const std::size_t count = candidates.list().size();
    if (count < 2) return;
    const double share = std::clamp(entropy(candidates).nats / log64(static_cast<double>(count)), 0.0, 1.0);
    const double temperature = low_ + (high_ - low_) * pow64(share, exponent_);
    if (temperature > 0) {
      candidates.multiply(1.0 / temperature);
    } else {
      candidates.keep_best();
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<DynamicTemperatureLink>(*this); }

 private:
  double low_, high_, exponent_;
};

}  // namespace

LinkPointer make_link(const DynamicTemperature& spec, const LinkContext& context) {
  if (spec.range == 0) return make_link(Temperature{spec.value}, context);
  return std::make_unique<DynamicTemperatureLink>(spec);
}

}  // namespace llminfer::runtime
