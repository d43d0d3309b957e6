// The sampler chain of one sequence: from a row of logits to the next token.
#pragma once

#include <limits>
#include <llminfer/error.hpp>
#include <memory>
#include <vector>

#include "runtime/sampling/banned_strings.h"
#include "runtime/sampling/link.h"
#include "runtime/sampling/workspace.h"

namespace llminfer::runtime {

enum class SampleStatus {
  ok,
  not_a_number,     ///< a logit is NaN
  infinite,         ///< a logit is +inf
  nothing_left,     ///< every token is forbidden
  callback_failed,  ///< a caller's sampler or mask threw
};

/// The request's error for a status: invalid_logits or callback_failed, and a sentence. Not for ok.
ErrorCode error_code(SampleStatus status) noexcept;
const char* describe(SampleStatus status) noexcept;

/// A chosen token.
struct Draw {
  Token token = -1;
  float logprob = std::numeric_limits<float>::quiet_NaN();  ///< under softmax of the raw logits; NaN if not asked for
  float sampled_logprob = 0;                                ///< under the distribution it was drawn from
  std::span<const TopToken> top{};                          ///< best first; valid until the chain's next sample()
};

/// What follows from a token taken into the history.
struct Accepted {
  SampleStatus status = SampleStatus::ok;
  int take_back = 0;  ///< the history's last tokens, the newest included, that the caller must remove now, and compute
                      ///< the logits there again. The chain has undone them already: no rollback() for these.
  int held = 0;       ///< the history's last tokens that a later token may make it take back: hold their text back
};

/// One sequence's sampling state: a value. A copy is independent and draws the same (fork); rollback undoes (rewind).
/// No step allocates (a caller's own sampler aside). One thread at a time.
///
///   sample(workspace, logits, history) -> token;  append it to the history;  accept(history);  ... rollback(n)
class SamplerChain {
 public:
  struct Setup {
    int vocabulary = 0;
    int context = 0;                       ///< most tokens the history can have
    std::span<const Token> stop_tokens{};  ///< banned until min_new_tokens; read here only
    const TokenBytes* bytes = nullptr;     ///< outlives the chain; null: no banned strings, no DRY breakers
    std::uint32_t sequence = 0;            ///< index of the sequence among those of one seed
    bool logprobs = true;                  ///< Draw::logprob wanted (costs a pass over the vocabulary)
    int top_logprobs = 0;                  ///< entries of Draw::top, at most 1024
    std::pmr::memory_resource* memory = std::pmr::get_default_resource();  ///< outlives the chain
  };

  /// Throws invalid_argument (see validate()), and what a caller's clone() throws.
  SamplerChain(const SamplingOptions& options, const Setup& setup);
  SamplerChain(const SamplerChain& other);
  SamplerChain(SamplerChain&&) = default;
  SamplerChain& operator=(const SamplerChain&) = delete;
  SamplerChain& operator=(SamplerChain&&) = default;
  ~SamplerChain() = default;

  /// Chooses the token that follows `history` (prompt and new tokens). `logits`: one row, as long as the vocabulary;
  /// not changed. Same arguments, same state: same token. On another status than ok, `draw` is unspecified.
  SampleStatus sample(SamplerWorkspace& workspace, std::span<const float> logits, std::span<const Token> history,
                      Draw& draw) noexcept;

  /// Of how many best logits of the tokens that are not forbidden the choice is made, where no other logit counts; 0
  /// where others do.
  int wants_top_alone() const noexcept;
  /// Whether tokens are forbidden now, and which: their bits (id % 32 of word id / 32) are cleared, all others set.
  bool forbids() const noexcept;
  void fill_allowed(std::span<std::uint32_t> allowed) const noexcept;
  /// What sample() would do with a row whose best allowed logits these are: wants_top_alone() of them, falling, a NaN
  /// before all numbers, the lower id first of equals. But that +infinity of a forbidden token is not seen.
  SampleStatus sample_top(SamplerWorkspace& workspace, std::span<const Token> ids, std::span<const float> logits,
                          std::span<const Token> history, Draw& draw) noexcept;

  /// `history` now ends with a new token, drawn here or not.
  Accepted accept(std::span<const Token> history) noexcept;

  /// The last `count` accepted tokens are gone from the history.
  SampleStatus rollback(int count) noexcept;

  /// Tokens accepted and not taken back.
  int new_tokens() const noexcept { return new_tokens_; }
  /// True once the mask says that the output is complete.
  bool complete() const noexcept;

 private:
  using Links = std::vector<std::unique_ptr<Link>>;

  void add(std::unique_ptr<Link> link);
  void add_simple(const SamplingOptions& options, LinkContext& context);
  SampleStatus choose(SamplerWorkspace& workspace, std::span<const Token> history, Draw& draw) noexcept;
  SampleStatus run(SamplerWorkspace& workspace, const Step& step, Draw& draw);
  bool apply_mask(SamplerWorkspace& workspace);
  void report_raw(Candidates& candidates, Draw& draw) noexcept;
  void undo(int count);

  std::uint64_t seed_ = 0;
  std::uint32_t sequence_ = 0;
  bool logprobs_ = true;
  int vocabulary_ = 0;
  int new_tokens_ = 0;
  std::size_t length_ = 0;  // of the history at the last accept
  double normalizer_ = 0;   // ln sum e^x of the raw logits of this step
  std::unique_ptr<MaskSource> mask_;
  BannedStrings strings_;
  Links first_;  // before banned strings: they only remove (see Link::forbid)
  Links links_;
  std::size_t top_count_ = 0;
  std::vector<TopToken> top_;
};

}  // namespace llminfer::runtime
