#include <algorithm>

#include "runtime/sampling/links.h"
#include "runtime/sampling/surprise_control.h"

namespace llminfer::runtime {
namespace {

// Least-squares Zipf exponent of the best tokens: t_i = ln((i + 2) / (i + 1)) against b_i = ln(p_i / p_(i+1)).
double zipf_exponent(std::span<const Candidate> best, double scale) noexcept {
  double tb = 0;
  double tt = 0;
  for (std::size_t i = 0; i + 1 < best.size(); ++i) {
    const double t = log64(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = (static_cast<double>(best[i].logit) - static_cast<double>(best[i + 1].logit)) * scale;
    tb += t * b;
    tt += t * t;
  }
  return tb / tt;
}

// The k whose Zipf tail has surprise mu, for exponent s over n tokens.
double k_for(double s, double mu, double n) noexcept {
  const double epsilon = s - 1;
  const double log_n = log64(n);
  // epsilon / (1 - n^-epsilon), which tends to 1 / ln n
  const bool flat = epsilon < 1e-9 && epsilon > -1e-9;
  const double ratio = flat ? 1 / log_n : epsilon / (1 - exp64(-epsilon * log_n));
  return exp64((log64(ratio) + mu * ln2) / s);
}

class MirostatLink final : public Link {
 public:
  MirostatLink(const Mirostat& spec, const LinkContext& context)
      : m_(static_cast<std::size_t>(spec.m)), control_(spec.tau, spec.eta, context) {}

  void apply(Candidates& candidates, const Step&) override {
    const auto best = candidates.top(m_);
    if (best.size() < 2) return;
    const double s = zipf_exponent(best, candidates.scale());
    const double n = candidates.vocabulary();
    const double k = s > 0 ? k_for(s, control_.mu(), n) : n;
    candidates.keep_top(k < n ? static_cast<std::size_t>(std::max(k, 1.0)) : static_cast<std::size_t>(n));
  }
  void drawn(const Chosen& chosen, const Candidates&) noexcept override { control_.drawn(chosen); }
  void accept(Token token) override { control_.accept(token); }
  void rollback(int count) override { control_.rollback(count); }
  std::unique_ptr<Link> clone() const override { return std::make_unique<MirostatLink>(*this); }

 private:
  std::size_t m_;
  SurpriseControl control_;
};

}  // namespace

LinkPointer make_link(const Mirostat& spec, const LinkContext& context) {
  return std::make_unique<MirostatLink>(spec, context);
}

}  // namespace llminfer::runtime
