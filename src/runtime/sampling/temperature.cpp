#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// x / t as a factor on the whole set: no element is touched.
class TemperatureLink final : public Link {
 public:
  explicit TemperatureLink(float value) : factor_(1.0 / static_cast<double>(value)) {}
  void apply(Candidates& candidates, const Step&) override { candidates.multiply(factor_); }
  bool keeps_order() const noexcept override { return true; }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TemperatureLink>(*this); }

 private:
  double factor_;
};

}  // namespace

LinkPointer make_link(const Temperature& spec, const LinkContext& context) {
  if (spec.value == 0) return make_link(Greedy{}, context);
  return std::make_unique<TemperatureLink>(spec.value);
}

}  // namespace llminfer::runtime
