// A running generation: pieces of text, one a token.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/sampling.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {

class Session;

/// Limits in time, from the call of generate() or submit() (waiting in a Batcher's queue counts); zero: none.
struct Deadlines {
  std::chrono::nanoseconds first_token{0};
  std::chrono::nanoseconds whole{0};
};

struct GenerateOptions {
  int max_tokens = -1;         ///< at most so many new tokens; -1: until the context is full
  SamplingOptions sampling{};  ///< default: the most probable token
  std::vector<std::string>
      stop{};  ///< strings that end the text and are not part of it; at most 64 of 1 .. 1,024 bytes
  std::vector<Token> stop_tokens{};  ///< besides the model's own (ModelInfo::stop_tokens)
  bool ignore_end_of_text = false;   ///< the model's own stop tokens are forbidden instead of ending the text
  int top_logprobs = 0;              ///< entries of Piece::top, 0 .. 1,024
  bool logprobs = false;             ///< fill Piece::logprob; implied by top_logprobs > 0
  Deadlines deadlines{};
  std::uint64_t salt = 0;    ///< Batcher only: what was computed for requests with another salt is never reused
  int priority = 0;          ///< Batcher only: higher ones are computed first and may push lower ones out of memory
  double weight = 1;         ///< Batcher only: share of the tokens among equal priorities under load, 1/1,024 to 1,024
  std::uint64_t caller = 0;  ///< Batcher only: the requests of a caller share what their weight gives to one of them,
                             ///< however many they are; by default all are of one caller, and share by themselves
};

/// Why a generation ended. The text is valid in each case; everything else is an Error.
enum class Finish {
  end_of_text,          ///< the model chose one of its stop tokens
  stop_token,           ///< one of GenerateOptions::stop_tokens
  stop_string,          ///< one of GenerateOptions::stop
  length,               ///< max_tokens
  context_full,         ///< no room for another token
  constraint_complete,  ///< the mask of SamplingOptions is complete
  deadline,             ///< one of GenerateOptions::deadlines
  cancelled,            ///< cancel(), a stop request, or a callback that returned false
};

/// "end_of_text" and so on. Never null.
LLMINFER_API const char* to_string(Finish finish) noexcept;

struct Outcome {
  Finish finish = Finish::end_of_text;
  std::string stop_string{};  ///< which one, for Finish::stop_string
  int prompt_tokens = 0;      ///< history before the first new token
  int reused_tokens = 0;      ///< of these, how many were computed before this generation
  int new_tokens = 0;         ///< pieces handed out
};

/// One new token. A token that ends the generation is handed out too: its text is what was still held back.
struct Piece {
  Token token = 0;
  std::string_view text{};  ///< complete UTF-8 that became final with this token; may be empty. Joined together the
                            ///< texts are the answer: no stop string, no half character in it
  std::span<const std::byte> bytes{};  ///< what the token stands for, whatever became of it in `text`
  float logprob = 0;                   ///< under softmax of the model's logits; NaN if not asked for
  float sampled_logprob = 0;           ///< under the distribution it was drawn from
  std::span<const TopToken> top{};     ///< most probable tokens of the model's distribution, best first
};

/// A generation. From Session::generate() it borrows the Session, which must outlive it and is not used otherwise
/// meanwhile, and computes in next(). From Batcher::submit() it owns the Session, and next() waits for the Batcher. One
/// thread at a time, except for cancel(). Destroying it takes back tokens that were computed ahead of the last Piece
/// handed out.
class LLMINFER_API Generator {
 public:
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  ~Generator();

  /// The next piece, or null at the end (outcome() then says why). Its views live until the next call. An Error ends
  /// the generation too; the history then ends at the last piece handed out. A stop request ends it as cancelled.
  Result<const Piece*> next(std::stop_token stop = {});

  /// All pieces to `on_piece`, which returns false to stop (history kept). What it throws becomes Error
  /// callback_failed.
  Result<Outcome> run(const std::function<bool(const Piece&)>& on_piece, std::stop_token stop = {});

  /// (any thread) Ends the generation as cancelled, a running prefill included.
  void cancel() noexcept;

  /// After the end; before it, what is known so far.
  const Outcome& outcome() const noexcept;

  /// From a Batcher only (else Error invalid_argument): cancels what has not ended, waits for the running step, and
  /// gives the Session back. Its history ends at the last piece handed out.
  Result<Session> release() &&;

  /// Input iterator over pieces. An error is thrown from ++ (Exception).
  class iterator {
   public:
    using value_type = Piece;
    using difference_type = std::ptrdiff_t;
    using reference = const Piece&;
    using pointer = const Piece*;
    using iterator_category = std::input_iterator_tag;

    iterator() noexcept = default;
    reference operator*() const noexcept { return *piece_; }
    pointer operator->() const noexcept { return piece_; }
    iterator& operator++() {
      piece_ = generator_->next().value();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& it, std::default_sentinel_t) noexcept { return it.piece_ == nullptr; }

   private:
    friend class Generator;
    explicit iterator(Generator* generator) : generator_(generator) { ++*this; }
    Generator* generator_ = nullptr;
    const Piece* piece_ = nullptr;
  };
  /// Computes the first piece; throws Exception on an error.
  iterator begin() { return iterator(this); }
  std::default_sentinel_t end() const noexcept { return {}; }

  class Body;
  /// For the library's own use.
  explicit Generator(std::unique_ptr<Body> body) noexcept;

 private:
  std::unique_ptr<Body> body_;
};

}  // namespace v0
}  // namespace llminfer
