#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// p_i >= m * p_max means x_i >= x_max + ln m: no softmax.
class MinPLink final : public Link {
 public:
  explicit MinPLink(float p) : log_p_(log64(p)) {}
  void apply(Candidates& candidates, const Step&) override { candidates.keep_from(candidates.max() + log_p_); }
  std::unique_ptr<Link> clone() const override { return std::make_unique<MinPLink>(*this); }

 private:
  double log_p_;
};

}  // namespace

LinkPointer make_link(const MinP& spec, const LinkContext&) {
  return spec.p <= 0 ? nullptr : std::make_unique<MinPLink>(spec.p);
}

}  // namespace llminfer::runtime
