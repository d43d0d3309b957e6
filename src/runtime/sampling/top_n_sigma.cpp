#include <cmath>

#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class TopNSigmaLink final : public Link {
 public:
  explicit TopNSigmaLink(float n) : n_(n) {}

  void apply(Candidates& candidates, const Step&) override {
    const auto list = candidates.list();
    if (list.size() < 2) return;
    const auto count = static_cast<double>(list.size());
    double mean = 0;
    for (const Candidate& c : list) mean += static_cast<double>(c.logit);
    mean /= count;
    double variance = 0;
    for (const Candidate& c : list) {
      const double d = static_cast<double>(c.logit) - mean;
      variance += d * d;
    }
    const double sigma = std::sqrt(variance / count) * candidates.scale();  // sqrt is exact everywhere, unlike exp
    candidates.keep_from(candidates.max() - n_ * sigma);
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<TopNSigmaLink>(*this); }

 private:
  double n_;
};

}  // namespace

LinkPointer make_link(const TopNSigma& spec, const LinkContext&) { return std::make_unique<TopNSigmaLink>(spec.n); }

}  // namespace llminfer::runtime
