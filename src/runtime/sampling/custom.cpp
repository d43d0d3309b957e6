#include "core/fail.h"
#include "runtime/sampling/links.h"

namespace llminfer::runtime {
namespace {

// Hands the candidates to the caller's sampler with temperatures applied.
class CustomLink final : public Link {
 public:
  CustomLink(std::unique_ptr<Sampler> sampler, int place)
      : sampler_(std::move(sampler)), purpose_(static_cast<std::uint32_t>(place) + 1) {}

  void apply(Candidates& candidates, const Step& step) override {
    const auto list = candidates.list();
    candidates.apply_scale();
    sampler_->apply(list, SamplerStep{step.history, step.new_tokens, static_cast<int>(step.random.position),
                                      step.random.uniform(purpose_)});
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (list[i].id <= list[i - 1].id) core::fail(ErrorCode::callback_failed, "a sampler changed candidate ids");
    }
    if (!list.empty() && (list.front().id < 0 || list.back().id >= candidates.vocabulary())) {
      core::fail(ErrorCode::callback_failed, "a sampler changed candidate ids");
    }
    if (!candidates.list_changed()) core::fail(ErrorCode::invalid_logits, "a sampler made a logit NaN or infinite");
  }
  void accept(Token token) override { sampler_->accept(token); }
  void rollback(int count) override { sampler_->rollback(count); }
  std::unique_ptr<Link> clone() const override {
    auto copy = sampler_->clone();
    if (!copy) core::fail(ErrorCode::callback_failed, "Sampler::clone returned null");
    return std::make_unique<CustomLink>(std::move(copy), static_cast<int>(purpose_) - 1);
  }

 private:
  std::unique_ptr<Sampler> sampler_;
  std::uint32_t purpose_;
};

}  // namespace

LinkPointer make_link(const Custom& spec, const LinkContext& context) {
  auto copy = spec.prototype->clone();
  if (!copy) core::fail(ErrorCode::callback_failed, "Sampler::clone returned null");
  return std::make_unique<CustomLink>(std::move(copy), context.place);
}

}  // namespace llminfer::runtime
