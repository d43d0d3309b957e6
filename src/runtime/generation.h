// One request's way from logits to pieces: sampling, stop tokens and strings, limits, and the pieces that wait.
#pragma once

#include <llminfer/generator.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sampling/chain.h"
#include "runtime/sequence.h"
#include "runtime/step_rows.h"
#include "text/piece_stream.h"
#include "text/tokenizer.h"

namespace llminfer::runtime {

/// What a generation is made for.
struct GenerationSetup {
  const text::Tokenizer* tokenizer = nullptr;                            ///< outlives it
  std::int32_t vocabulary = 0;                                           ///< width of the logits
  std::int32_t context = 0;                                              ///< of the sequence
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();  ///< outlives it
};

/// Ids that logits have but the tokenizer has no text for cannot be handed out.
std::int32_t usable_vocabulary(const GenerationSetup& setup) noexcept;

/// Throws invalid_argument naming the field and the value.
void validate(const GenerateOptions& options, const GenerationSetup& setup);

/// Used by one thread at a time. Driven by its owner: while neither front() nor finished(), compute the logits of the
/// sequence's last token and call step(). Allocates nothing in step() (a caller's own sampler aside).
class Generation {
 public:
  Generation(const GenerateOptions& options, const GenerationSetup& setup);

  /// Most bytes of the text of one piece.
  static std::size_t most_text(const GenerateOptions& options, const GenerationSetup& setup);

  /// A piece that waits to be handed out. Views of Piece point into this and into the tokenizer.
  struct Waiting {
    Token token = 0;
    float logprob = 0;
    float sampled_logprob = 0;
    std::string text;
    std::vector<TopToken> top;
    text::PieceStream::Mark before;  // the stream before this token, for taking it back
  };

  /// How many of the best logits of allowed tokens are all that the next step needs, at most StepRows::most_top; 0: it
  /// needs the whole row, as it does for the first token, whose logits are looked through for what is no number: a
  /// broken head would have that at every token.
  int wants_top_alone() const noexcept;
  /// Of StepOutputs::allowed: whether not all tokens are, and the row.
  bool forbids() const noexcept { return chain_.forbids(); }
  void fill_allowed(std::span<std::uint32_t> allowed) const noexcept { chain_.fill_allowed(allowed); }
  /// Chooses the token after the sequence's history and appends it. `row`: of the history's last token; all logits, or
  /// at least wants_top_alone() of the best. An error leaves the sequence as it was.
  Result<void> step(const ComputedRow& row, SamplerWorkspace& workspace, Sequence& sequence);
  /// Ends here; what waits is dropped with drop_waiting().
  void end(Finish finish) noexcept;

  /// The oldest piece if it may be handed out, else null.
  const Waiting* front() const noexcept;
  void pop_front() noexcept;
  /// Takes back what was not handed out.
  void drop_waiting(Sequence& sequence) noexcept;

  /// Why no further step will come. Pieces may still wait.
  std::optional<Finish> finished() const noexcept { return finish_; }
  const std::string& stop_string() const noexcept { return stop_string_; }
  Piece piece_of(const Waiting& waiting) const noexcept;

 private:
  SampleStatus sample(const ComputedRow& row, SamplerWorkspace& workspace, std::span<const Token> history,
                      Draw& draw) noexcept;
  Result<void> take(const Draw& draw, Sequence& sequence);
  bool is_stop(Token token, Finish& finish) const noexcept;
  void take_text(Token token, Waiting& waiting);
  void take_back(int count, Sequence& sequence) noexcept;
  Waiting& back() noexcept { return ring_[(first_ + waiting_ - 1) % ring_.size()]; }

  std::int32_t vocabulary_;
  bool whole_vocabulary_;  // every logit has a token
  std::int32_t max_tokens_;
  std::vector<Token> model_stops_;  // sorted
  std::vector<Token> stop_tokens_;  // sorted
  std::unique_ptr<TokenBytes> token_bytes_;
  std::shared_ptr<const text::StopStrings> stop_strings_;
  text::PieceStream stream_;
  SamplerChain chain_;
  std::vector<Waiting> ring_;  // pieces that wait, ring_[first_] the oldest
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  std::size_t held_ = 0;  // of these, the newest that may still be taken back
  std::optional<Finish> finish_;
  std::string stop_string_;
};

}  // namespace llminfer::runtime
