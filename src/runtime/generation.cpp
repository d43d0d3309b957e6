#include "runtime/generation.h"

#include <algorithm>

#include "core/fail.h"
#include "runtime/sampling/validate.h"

namespace llminfer::runtime {
namespace {

constexpr std::size_t most_stop_strings = 64;
constexpr std::size_t most_stop_bytes = 1024;
constexpr int most_logprobs = 1024;

/// The tokenizer's bytes for samplers that look at text.
class VocabularyBytes final : public TokenBytes {
 public:
  explicit VocabularyBytes(const text::Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  std::string_view bytes(Token token) const noexcept override {
    if (!vocabulary_.contains(token) || vocabulary_.is_control(token)) return {};
    return vocabulary_.bytes(token);
  }

 private:
  const text::Vocabulary& vocabulary_;
};

std::vector<Token> sorted(std::span<const Token> tokens) {
  std::vector<Token> out(tokens.begin(), tokens.end());
  std::sort(out.begin(), out.end());
  return out;
}

bool contains(const std::vector<Token>& tokens, Token token) noexcept {
  return std::binary_search(tokens.begin(), tokens.end(), token);
}

/// The model's own stop tokens become forbidden where they must not end the text.
SamplingOptions sampling_of(const GenerateOptions& options, const std::vector<Token>& model_stops,
                            std::int32_t vocabulary) {
  SamplingOptions sampling = options.sampling;
  if (!options.ignore_end_of_text) return sampling;
  for (const Token token : model_stops) {
    if (token < vocabulary) sampling.banned_tokens.push_back(token);
  }
  return sampling;
}

SamplerChain::Setup chain_setup(const GenerateOptions& options, const GenerationSetup& setup,
                                std::span<const Token> stops, const TokenBytes* bytes) {
  SamplerChain::Setup out;
  out.vocabulary = usable_vocabulary(setup);
  out.context = setup.context;
  out.stop_tokens = stops;
  out.bytes = bytes;
  out.sequence = options.sampling.sequence;
  out.logprobs = options.logprobs || options.top_logprobs > 0;
  out.top_logprobs = options.top_logprobs;
  out.memory = setup.memory;
  return out;
}

/// Most pieces that can wait: the tokens of the longest banned string, which has no empty tokens but may begin inside
/// one, and the piece being handed out.
std::size_t ring_size(const SamplingOptions& sampling) {
  std::size_t longest = 0;
  for (const std::string& s : sampling.banned_strings) longest = std::max(longest, s.size());
  return longest == 0 ? 2 : 2 * longest + 2;
}

}  // namespace

std::int32_t usable_vocabulary(const GenerationSetup& setup) noexcept {
  return std::min(setup.vocabulary, setup.tokenizer->vocabulary().size());
}

void validate(const GenerateOptions& options, const GenerationSetup& setup) {
  const auto bad = [](const char* field, std::int64_t value, const char* range) {
    core::fail(ErrorCode::invalid_argument, "GenerateOptions::{} is {}, must be {}", field, value, range);
  };
  if (options.max_tokens < -1) bad("max_tokens", options.max_tokens, "-1 or more");
  if (options.top_logprobs < 0 || options.top_logprobs > most_logprobs)
    bad("top_logprobs", options.top_logprobs, "0 to 1024");
  if (options.stop.size() > most_stop_strings)
    bad("stop.size()", static_cast<std::int64_t>(options.stop.size()), "at most 64");
  for (const std::string& s : options.stop) {
    const bool fits = !s.empty() && s.size() <= most_stop_bytes;
    if (!fits) bad("stop (bytes of a string)", static_cast<std::int64_t>(s.size()), "1 to 1024");
  }
  for (const Token t : options.stop_tokens) {
    if (t < 0 || t >= setup.vocabulary) bad("stop_tokens", t, "an id of the vocabulary");
  }
  if (options.deadlines.first_token.count() < 0)
    bad("deadlines.first_token", options.deadlines.first_token.count(), "0 or more");
  if (options.deadlines.whole.count() < 0) bad("deadlines.whole", options.deadlines.whole.count(), "0 or more");
  const bool weight_ok = options.weight >= 1.0 / 1024 && options.weight <= 1024;  // false for NaN
  if (!weight_ok) {
    core::fail(ErrorCode::invalid_argument, "GenerateOptions::weight is {}, must be 1/1024 to 1024", options.weight);
  }
  validate(options.sampling, usable_vocabulary(setup), true);
}

Generation::Generation(const GenerateOptions& options, const GenerationSetup& setup)
    : vocabulary_(usable_vocabulary(setup)),
      whole_vocabulary_(vocabulary_ == setup.vocabulary),
      max_tokens_(options.max_tokens),
      model_stops_(sorted(setup.tokenizer->vocabulary().stop_tokens())),
      stop_tokens_(sorted(options.stop_tokens)),
      token_bytes_(std::make_unique<VocabularyBytes>(setup.tokenizer->vocabulary())),
      stop_strings_(std::make_shared<const text::StopStrings>(options.stop)),
      stream_(stop_strings_, setup.tokenizer->vocabulary().longest_bytes()),
      chain_(
          sampling_of(options, model_stops_, vocabulary_),
          chain_setup(options, setup, options.ignore_end_of_text ? stop_tokens_ : model_stops_, token_bytes_.get())) {
  if (options.ignore_end_of_text) model_stops_.clear();
  const std::size_t most = most_text(options, setup);
  const Waiting empty{0, 0, 0, {}, {}, stream_.mark()};
  ring_.assign(ring_size(options.sampling), empty);
  for (Waiting& w : ring_) {
    w.text.reserve(most);
    w.top.reserve(static_cast<std::size_t>(options.top_logprobs));
  }
  if (max_tokens_ == 0) finish_ = Finish::length;
}

std::size_t Generation::most_text(const GenerateOptions& options, const GenerationSetup& setup) {
  std::size_t longest_stop = 0;
  for (const std::string& s : options.stop) longest_stop = std::max(longest_stop, s.size());
  // A token's bytes, what waited before it, and the same again when the end comes with it.
  return 2 * text::PieceDecoder::most_text(setup.tokenizer->vocabulary().longest_bytes() + 2 * longest_stop);
}

bool Generation::is_stop(Token token, Finish& finish) const noexcept {
  finish = contains(stop_tokens_, token) ? Finish::stop_token : Finish::end_of_text;
  return finish == Finish::stop_token || contains(model_stops_, token);
}

void Generation::take_text(Token token, Waiting& waiting) {
  Finish finish{};
  if (is_stop(token, finish)) {
    stream_.feed({});
    stream_.finish();
    finish_ = finish;
  } else {
    const std::optional<std::size_t> stop = stream_.feed(token_bytes_->bytes(token));
    if (stop) {
      finish_ = Finish::stop_string;
      stop_string_.assign(stop_strings_->string(*stop));
      stream_.finish();
    }
  }
  waiting.text.assign(stream_.text());
}

void Generation::take_back(int count, Sequence& sequence) noexcept {
  for (int i = 0; i < count && waiting_ > 0; ++i) {
    stream_.rewind(back().before);
    --waiting_;
  }
  sequence.rewind(sequence.size() - count);
  held_ = std::min(held_, waiting_);
}

int Generation::wants_top_alone() const noexcept {
  if (!whole_vocabulary_ || chain_.new_tokens() == 0) return 0;
  const int top = chain_.wants_top_alone();
  return top <= StepRows::most_top ? top : 0;
}

SampleStatus Generation::sample(const ComputedRow& row, SamplerWorkspace& workspace, std::span<const Token> history,
                                Draw& draw) noexcept {
  if (row.top_ids.empty()) {
    return chain_.sample(workspace, row.logits.first(static_cast<std::size_t>(vocabulary_)), history, draw);
  }
  const auto count = static_cast<std::size_t>(wants_top_alone());  // others of the step may want more
  return chain_.sample_top(workspace, row.top_ids.first(count), row.top_logits.first(count), history, draw);
}

Result<void> Generation::step(const ComputedRow& row, SamplerWorkspace& workspace, Sequence& sequence) {
  Draw draw;
  const SampleStatus sampled = sample(row, workspace, sequence.tokens(), draw);
  if (sampled != SampleStatus::ok) return Error{error_code(sampled), describe(sampled), "", 0, 0};
  return take(draw, sequence);
}

/// The token drawn becomes the history's last, with what follows from it.
Result<void> Generation::take(const Draw& draw, Sequence& sequence) {
  const Token token = draw.token;
  const Shortage shortage = sequence.append({&token, 1});
  if (shortage.kind == Shortage::Kind::context) {
    finish_ = Finish::context_full;
    return {};
  }
  if (shortage.kind != Shortage::Kind::none) {
    return Error{ErrorCode::out_of_pages, "the pool has no page for the next token", "", shortage.needed,
                 shortage.available};
  }
  const Accepted accepted = chain_.accept(sequence.tokens());
  if (accepted.status != SampleStatus::ok) {
    sequence.rewind(sequence.size() - 1);
    return Error{error_code(accepted.status), describe(accepted.status), "", 0, 0};
  }
  Waiting& slot = ring_[(first_ + waiting_) % ring_.size()];
  slot.token = token;
  slot.logprob = draw.logprob;
  slot.sampled_logprob = draw.sampled_logprob;
  slot.top.assign(draw.top.begin(), draw.top.end());
  slot.before = stream_.mark();
  slot.text.clear();
  ++waiting_;
  if (accepted.take_back > 0) {
    take_back(accepted.take_back, sequence);
    held_ = 0;
    return {};
  }
  held_ = static_cast<std::size_t>(accepted.held);
  take_text(token, slot);
  const bool last = max_tokens_ >= 0 && chain_.new_tokens() >= max_tokens_;
  if (!finish_ && (last || chain_.complete())) {
    finish_ = last ? Finish::length : Finish::constraint_complete;
    stream_.feed({});
    stream_.finish();
    slot.text.append(stream_.text());
  }
  return {};
}

void Generation::end(Finish finish) noexcept {
  if (!finish_) finish_ = finish;
}

const Generation::Waiting* Generation::front() const noexcept {
  const std::size_t held = finish_ ? 0 : held_;
  return waiting_ > held ? &ring_[first_] : nullptr;
}

void Generation::pop_front() noexcept {
  first_ = (first_ + 1) % ring_.size();
  --waiting_;
}

void Generation::drop_waiting(Sequence& sequence) noexcept {
  if (waiting_ == 0) return;
  sequence.rewind(sequence.size() - static_cast<std::int32_t>(waiting_));
  waiting_ = 0;
}

Piece Generation::piece_of(const Waiting& waiting) const noexcept {
  const std::string_view bytes = token_bytes_->bytes(waiting.token);
  Piece piece;
  piece.token = waiting.token;
  piece.text = waiting.text;
  piece.bytes = std::as_bytes(std::span(bytes.data(), bytes.size()));
  piece.logprob = waiting.logprob;
  piece.sampled_logprob = waiting.sampled_logprob;
  piece.top = waiting.top;
  return piece;
}

}  // namespace llminfer::runtime
