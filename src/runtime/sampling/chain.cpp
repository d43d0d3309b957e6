#include "runtime/sampling/chain.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/fail.h"
#include "runtime/sampling/links.h"
#include "runtime/sampling/validate.h"

namespace llminfer::runtime {

namespace {

SampleStatus status_of(LogitCheck check) noexcept {
  switch (check) {
    case LogitCheck::ok:
      return SampleStatus::ok;
    case LogitCheck::not_a_number:
      return SampleStatus::not_a_number;
    case LogitCheck::infinite:
      return SampleStatus::infinite;
    case LogitCheck::nothing_left:
      return SampleStatus::nothing_left;
  }
  return SampleStatus::nothing_left;
}

// A caller's sampler that writes NaN is invalid_logits; all else that comes from its code is callback_failed.
SampleStatus status_of(const Exception& e) noexcept {
  return e.error().code == ErrorCode::invalid_logits ? SampleStatus::not_a_number : SampleStatus::callback_failed;
}

std::unique_ptr<MaskSource> clone_mask(const MaskSource* mask) {
  if (mask == nullptr) return nullptr;
  auto copy = mask->clone();
  if (!copy) core::fail(ErrorCode::callback_failed, "MaskSource::clone returned null");
  return copy;
}

}  // namespace

ErrorCode error_code(SampleStatus status) noexcept {
  return status == SampleStatus::callback_failed ? ErrorCode::callback_failed : ErrorCode::invalid_logits;
}

const char* describe(SampleStatus status) noexcept {
  switch (status) {
    case SampleStatus::ok:
      return "ok";
    case SampleStatus::not_a_number:
      return "a logit is NaN";
    case SampleStatus::infinite:
      return "a logit is +inf";
    case SampleStatus::nothing_left:
      return "every token is forbidden";
    case SampleStatus::callback_failed:
      return "a sampler or mask of the caller failed";
  }
  return "";
}

LinkPointer make_link(const SamplerSpec& spec, const LinkContext& context) {
  return std::visit([&](const auto& kind) { return make_link(kind, context); }, spec);
}

SamplerChain::SamplerChain(const SamplingOptions& options, const Setup& setup)
    : seed_(options.seed),
      sequence_(setup.sequence),
      logprobs_(setup.logprobs),
      vocabulary_(setup.vocabulary),
      top_count_(static_cast<std::size_t>(std::clamp(setup.top_logprobs, 0, 1024))) {
  if (setup.vocabulary < 1 || setup.context < 1) {
    core::fail(ErrorCode::invalid_argument, "a vocabulary of {} and a context of {} tokens cannot be sampled",
               setup.vocabulary, setup.context);
  }
  validate(options, setup.vocabulary, setup.bytes != nullptr);
  LinkContext context{setup.vocabulary, setup.context, setup.stop_tokens, setup.bytes, setup.memory, 0};
  mask_ = clone_mask(options.mask.get());
  if (auto link = make_min_new_tokens(options.min_new_tokens, context)) first_.push_back(std::move(link));
  if (auto link = make_banned_tokens(options.banned_tokens, context)) first_.push_back(std::move(link));
  strings_ = BannedStrings(options.banned_strings, setup.bytes);
  add(make_link(LogitBias{options.logit_bias}, context));
  if (options.chain.empty()) add_simple(options, context);
  for (const SamplerSpec& spec : options.chain) {
    add(make_link(spec, context));
    ++context.place;
  }
  top_.resize(top_count_);
}

void SamplerChain::add(std::unique_ptr<Link> link) {
  if (link) links_.push_back(std::move(link));  // null: its parameters turn it off
}

void SamplerChain::add_simple(const SamplingOptions& options, LinkContext& context) {
  const bool cuts = options.top_k != 0 || options.top_p != 1 || options.min_p != 0;
  add(make_link(RepetitionPenalty{.value = options.repetition_penalty}, context));
  add(make_link(PresencePenalty{.value = options.presence_penalty}, context));
  add(make_link(FrequencyPenalty{.value = options.frequency_penalty}, context));
  add(make_link(Temperature{options.temperature.value_or(cuts ? 1.0f : 0.0f)}, context));
  add(make_link(TopK{options.top_k}, context));
  add(make_link(TopP{options.top_p}, context));
  add(make_link(MinP{options.min_p}, context));
}

SamplerChain::SamplerChain(const SamplerChain& other)
    : seed_(other.seed_),
      sequence_(other.sequence_),
      logprobs_(other.logprobs_),
      vocabulary_(other.vocabulary_),
      new_tokens_(other.new_tokens_),
      length_(other.length_),
      mask_(clone_mask(other.mask_.get())),
      strings_(other.strings_),
      top_count_(other.top_count_),
      top_(other.top_) {
  for (const auto& link : other.first_) first_.push_back(link->clone());
  for (const auto& link : other.links_) links_.push_back(link->clone());
}

bool SamplerChain::apply_mask(SamplerWorkspace& workspace) {
  if (!mask_ || !mask_->fill(workspace.mask)) return true;
  workspace.candidates.restrict_to(workspace.mask);
  return workspace.candidates.best() >= 0;
}

// Before anything edits the candidates.
void SamplerChain::report_raw(Candidates& candidates, Draw& draw) noexcept {
  draw.top = {};
  if (!logprobs_ && top_count_ == 0) return;
  normalizer_ = candidates.log_sum_exp();
  if (top_count_ == 0) return;
  const auto best = candidates.top(top_count_);
  for (std::size_t i = 0; i < best.size(); ++i) {
    top_[i] = {best[i].id, static_cast<float>(static_cast<double>(best[i].logit) - normalizer_)};
  }
  draw.top = {top_.data(), best.size()};
}

SampleStatus SamplerChain::run(SamplerWorkspace& workspace, const Step& step, Draw& draw) {
  Candidates& candidates = workspace.candidates;
  if (!apply_mask(workspace)) return SampleStatus::nothing_left;
  for (const auto& link : first_) link->apply(candidates, step);
  strings_.apply(candidates, step.random.position);
  for (const auto& link : links_) link->apply(candidates, step);
  const auto drawn = candidates.draw(step.random.uniform(0));
  if (drawn.token < 0) return SampleStatus::nothing_left;
  draw.token = drawn.token;
  draw.sampled_logprob = static_cast<float>(drawn.log_probability);
  for (const auto& link : links_) link->drawn({drawn.token, drawn.log_probability}, candidates);
  return SampleStatus::ok;
}

SampleStatus SamplerChain::sample(SamplerWorkspace& workspace, std::span<const float> logits,
                                  std::span<const Token> history, Draw& draw) noexcept {
  Candidates& candidates = workspace.candidates;
  if (strings_.exhausted() || candidates.vocabulary() != vocabulary_ ||
      logits.size() != static_cast<std::size_t>(vocabulary_)) {
    return SampleStatus::nothing_left;
  }
  const SampleStatus checked = status_of(candidates.reset(logits));
  if (checked != SampleStatus::ok) return checked;
  report_raw(candidates, draw);
  const SampleStatus chosen = choose(workspace, history, draw);
  if (chosen != SampleStatus::ok) return chosen;
  draw.logprob = std::numeric_limits<float>::quiet_NaN();
  if (logprobs_) {
    const auto raw = static_cast<double>(logits[static_cast<std::size_t>(draw.token)]);
    draw.logprob = static_cast<float>(raw - normalizer_);
  }
  return SampleStatus::ok;
}

SampleStatus SamplerChain::sample_top(SamplerWorkspace& workspace, std::span<const Token> ids,
                                      std::span<const float> logits, std::span<const Token> history,
                                      Draw& draw) noexcept {
  if (workspace.candidates.vocabulary() != vocabulary_) return SampleStatus::nothing_left;
  const SampleStatus checked = status_of(workspace.candidates.reset_top(ids, logits));
  if (checked != SampleStatus::ok) return checked;
  draw = {};
  return choose(workspace, history, draw);
}

/// Of the candidates that the workspace holds.
SampleStatus SamplerChain::choose(SamplerWorkspace& workspace, std::span<const Token> history, Draw& draw) noexcept {
  Step step;
  step.history = history;
  step.new_tokens = new_tokens_;
  step.random = {seed_, sequence_, static_cast<std::uint32_t>(history.size()),
                 static_cast<std::uint32_t>(strings_.attempts(history.size()))};
  step.counts = &workspace.counts;
  try {
    return run(workspace, step, draw);
  } catch (const Exception& e) {
    return status_of(e);
  } catch (...) {
    return SampleStatus::callback_failed;
  }
}

int SamplerChain::wants_top_alone() const noexcept {
  if (mask_ || strings_.active() || logprobs_ || top_count_ > 0) return 0;
  for (const auto& link : links_) {
    if (link->keeps_top() > 0) return link->keeps_top() < vocabulary_ ? link->keeps_top() : 0;
    if (!link->keeps_order()) return 0;
  }
  return 0;
}

bool SamplerChain::forbids() const noexcept {
  return std::any_of(first_.begin(), first_.end(), [&](const auto& link) { return link->forbids(new_tokens_); });
}

void SamplerChain::fill_allowed(std::span<std::uint32_t> allowed) const noexcept {
  std::fill(allowed.begin(), allowed.end(), ~std::uint32_t{0});
  for (const auto& link : first_) link->forbid(allowed, new_tokens_);
}

Accepted SamplerChain::accept(std::span<const Token> history) noexcept {
  if (history.empty()) return {};
  Accepted result;
  try {
    const Token token = history.back();
    if (mask_) mask_->accept(token);
    for (const auto& link : links_) link->accept(token);
    ++new_tokens_;
    length_ = history.size();
    const auto finding = strings_.accept(history, new_tokens_);
    result.take_back = finding.take_back;
    result.held = finding.held;
    if (finding.take_back > 0) undo(finding.take_back);
  } catch (...) {
    result.status = SampleStatus::callback_failed;
  }
  return result;
}

// All but the banned strings, which know already.
void SamplerChain::undo(int count) {
  new_tokens_ -= count;
  length_ -= static_cast<std::size_t>(count);
  if (mask_) mask_->rollback(count);
  for (const auto& link : links_) link->rollback(count);
}

SampleStatus SamplerChain::rollback(int count) noexcept {
  count = std::min(count, new_tokens_);
  if (count <= 0) return SampleStatus::ok;
  try {
    undo(count);
  } catch (...) {
    return SampleStatus::callback_failed;
  }
  strings_.rolled_back_to(length_);
  return SampleStatus::ok;
}

bool SamplerChain::complete() const noexcept {
  try {
    return mask_ && mask_->complete();
  } catch (...) {
    return true;
  }
}

}  // namespace llminfer::runtime
