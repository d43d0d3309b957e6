#include "runtime/sampling/links.h"
#include "runtime/sampling/surprise_control.h"

namespace llminfer::runtime {
namespace {

// -log2 p <= mu means x >= ln(sum e^x) - mu ln 2.
class MirostatV2Link final : public Link {
 public:
  MirostatV2Link(const MirostatV2& spec, const LinkContext& context) : control_(spec.tau, spec.eta, context) {}

  void apply(Candidates& candidates, const Step&) override {
    candidates.keep_from(candidates.log_sum_exp() - control_.mu() * ln2);
  }
  void drawn(const Chosen& chosen, const Candidates&) noexcept override { control_.drawn(chosen); }
  void accept(Token token) override { control_.accept(token); }
  void rollback(int count) override { control_.rollback(count); }
  std::unique_ptr<Link> clone() const override { return std::make_unique<MirostatV2Link>(*this); }

 private:
  SurpriseControl control_;
};

}  // namespace

LinkPointer make_link(const MirostatV2& spec, const LinkContext& context) {
  return std::make_unique<MirostatV2Link>(spec, context);
}

}  // namespace llminfer::runtime
