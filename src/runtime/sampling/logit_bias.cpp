#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

class LogitBiasLink final : public Link {
 public:
  explicit LogitBiasLink(std::vector<TokenBias> biases) : biases_(std::move(biases)) {}
  void apply(Candidates& candidates, const Step&) override {
    for (const TokenBias& b : biases_) {
      candidates.set(b.token, candidates.logit(b.token) + static_cast<double>(b.bias));
    }
  }
  std::unique_ptr<Link> clone() const override { return std::make_unique<LogitBiasLink>(*this); }

 private:
  std::vector<TokenBias> biases_;
};

}  // namespace

LinkPointer make_link(const LogitBias& spec, const LinkContext&) {
  return spec.biases.empty() ? nullptr : std::make_unique<LogitBiasLink>(spec.biases);
}

}  // namespace llminfer::runtime
