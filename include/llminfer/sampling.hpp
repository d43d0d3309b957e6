// How the next token is chosen: a chain of small samplers in the caller's order, and what a caller may add of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <llminfer/export.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {

// ---- The samplers -------------------------------------------------------------------------------------------------
// Notation: x are the logits as the samplers before left them, p = softmax(x), removed tokens have x = -inf. Every
// sampler leaves at least the most probable token (a mask, bans and a caller's own sampler may leave none: the request
// then ends with invalid_logits). Equal logits rank by id, the lowest first. A `window` counts tokens back from the end
// of the history, prompt included unless stated otherwise; -1 is the whole history, 0 turns the sampler off.

/// Keeps the most probable token alone.
struct Greedy {};

/// x := x / value. 0 means Greedy (nothing is divided). Range 0 .. 1e6.
struct Temperature {
  float value = 1.0f;
};

/// Temperature between max(0, value - range) and value + range, by the entropy H of p over n tokens:
/// low + (high - low) * (H / ln n)^exponent. With range 0 it is Temperature. Source: llama.cpp (temp_ext).
struct DynamicTemperature {
  float value = 1.0f;     ///< 0 .. 1e6
  float range = 0.5f;     ///< 0 .. 1e6
  float exponent = 1.0f;  ///< above 0, at most 100
};

/// Keeps the k most probable tokens; 0 keeps all. Source: Fan et al. 2018.
struct TopK {
  int k = 40;
};

/// Keeps the smallest set of most probable tokens whose p sum to at least p; 1 keeps all. Source: Holtzman et al. 2019.
struct TopP {
  float p = 0.95f;
};

/// Keeps the tokens with p of at least p times that of the most probable one; 0 keeps all. Source: Nguyen et al. 2024.
struct MinP {
  float p = 0.05f;
};

/// Keeps the smallest set, in order of |-ln p - H|, that holds a mass of at least p. Source: Meister et al. 2022.
struct TypicalP {
  float p = 0.95f;
};

/// Keeps tokens with x >= max - n * sigma, sigma the standard deviation of the x that are not removed.
/// Source: Tang et al. 2024.
struct TopNSigma {
  float n = 1.0f;
};

/// With the given probability, removes of all tokens with p >= threshold every one but the least probable. Does nothing
/// where fewer than two reach it. Source: the "exclude top choices" proposal, as in llama.cpp.
struct Xtc {
  float probability = 0.5f;  ///< 0 .. 1
  float threshold = 0.1f;    ///< 0 .. 1; above 0.5 it never applies
};

/// "Don't repeat yourself": a token that would prolong to n + 1 tokens a repetition of the last n tokens, with
/// n >= allowed_length, loses multiplier * base^(n - allowed_length). A repetition does not reach back past a breaker,
/// and a token that contains a breaker is never penalised. Breakers are byte strings looked for in the text.
/// Source: the DRY proposal (text-generation-webui), as in llama.cpp.
struct Dry {
  float multiplier = 0.8f;  ///< 0 (off) .. 1000
  float base = 1.75f;       ///< 1 .. 100
  int allowed_length = 2;   ///< 0 .. 2^24
  int window = 1024;
  std::vector<std::string> breakers{"\n", ":", "\"", "*"};  ///< at most 256, of 1 .. 256 bytes
};

/// Holds the surprise of the text (-log2 p) near tau bits: estimates the Zipf exponent from the m most probable tokens,
/// derives k, keeps the k most probable. Must be the last of a chain. Source: Basu et al. 2020, algorithm 1.
struct Mirostat {
  float tau = 5.0f;  ///< above 0, at most 100
  float eta = 0.1f;  ///< 0 .. 1: learning rate
  int m = 100;       ///< 2 .. 65536
};

/// As Mirostat, keeping tokens whose surprise is at most mu. Must be the last. Source: Basu et al. 2020, algorithm 2.
struct MirostatV2 {
  float tau = 5.0f;
  float eta = 0.1f;
};

/// Prefers tokens whose p is near a target, which it moves so that the mean p of the tokens chosen stays near `target`.
/// Must be the last of a chain. Source: llama.cpp (adaptive-p).
struct AdaptiveP {
  float target = 0.5f;  ///< 0 .. 1
  float decay = 0.9f;   ///< 0 .. 0.99: memory of about 1 / (1 - decay) tokens
};

/// Tokens in the window: x > 0 is divided by value, x <= 0 multiplied. 1 is off. Source: Keskar et al. 2019 (with the
/// rule for negative logits that all implementations share).
struct RepetitionPenalty {
  float value = 1.1f;  ///< above 0, at most 100
  int window = 64;
};

/// Tokens in the window: x := x - value. By default over the new tokens alone, as the OpenAI API defines it.
struct PresencePenalty {
  float value = 0.0f;  ///< -100 .. 100
  int window = -1;
  bool prompt = false;  ///< true: the window also sees the prompt
};

/// As PresencePenalty: x := x - value * (how often the token occurs in the window).
struct FrequencyPenalty {
  float value = 0.0f;
  int window = -1;
  bool prompt = false;
};

/// Removes tokens that would complete a sequence of `size` tokens that the window already has; 0 is off, 1 forbids
/// every token of the window. Source: Paulus et al. 2017.
struct NoRepeatNgram {
  int size = 3;  ///< 0 .. 1024
  int window = -1;
};

/// Added to one token's logit; -inf bans it.
struct TokenBias {
  Token token = 0;
  float bias = 0.0f;
};

/// x[token] := x[token] + bias, for tokens not removed already. Order is free; biases of a token named twice add up.
struct LogitBias {
  std::vector<TokenBias> biases{};
};

/// A token still in play and its logit.
struct Candidate {
  Token id = 0;
  float logit = 0.0f;
};

/// What a caller's sampler sees of the moment.
struct SamplerStep {
  std::span<const Token> history{};  ///< prompt and new tokens; valid during the call
  int new_tokens = 0;                ///< of these, how many were generated
  int position = 0;                  ///< of the token to be chosen: history.size()
  float uniform = 0.0f;  ///< a random number in [0, 1) of this sampler's own, a function of (seed, sequence,
                         ///< position, place in the chain)
};

/// A caller's own sampler. The object put into the options is a prototype: every generation works on a clone() of it.
/// Called on the thread that runs the generation (a Batcher: on its own), one call at a time for one clone; clones may
/// run at the same time. What it throws ends that request alone, with callback_failed.
class LLMINFER_API Sampler {
 public:
  virtual ~Sampler();
  /// Changes logits; -inf removes a token. Candidates are in id order, removed ones absent; ids must stay as they are.
  /// A NaN or +inf written here ends the request with invalid_logits.
  virtual void apply(std::span<Candidate> candidates, const SamplerStep& step) = 0;
  /// The token was taken into the history (not always one this chain drew).
  virtual void accept(Token token);
  /// The last `count` accepted tokens were taken back; the state must be as it was before them.
  virtual void rollback(int count);
  /// An independent copy, state included: for a generation's start, and for fork.
  virtual std::unique_ptr<Sampler> clone() const = 0;

 protected:
  Sampler() = default;
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;
};

/// A caller's sampler as a part of the chain.
struct Custom {
  std::shared_ptr<const Sampler> prototype{};
};

/// Which tokens may come next, for constrained output. Threads, exceptions and clone() as for Sampler.
class LLMINFER_API MaskSource {
 public:
  virtual ~MaskSource();
  /// Bit id % 64 of bits[id / 64]: 1 allows the token. `bits` holds (vocabulary + 63) / 64 words of unspecified
  /// content. Returns false when every token is allowed; bits is then ignored.
  virtual bool fill(std::span<std::uint64_t> bits) = 0;
  virtual void accept(Token token) = 0;
  virtual void rollback(int count) = 0;
  /// True once the output is complete and nothing can follow.
  virtual bool complete() const;
  virtual std::unique_ptr<MaskSource> clone() const = 0;

 protected:
  MaskSource() = default;
  MaskSource(const MaskSource&) = default;
  MaskSource& operator=(const MaskSource&) = default;
};

/// One part of a chain.
using SamplerSpec = std::variant<Greedy, Temperature, DynamicTemperature, TopK, TopP, MinP, TypicalP, TopNSigma, Xtc,
                                 Dry, Mirostat, MirostatV2, AdaptiveP, RepetitionPenalty, PresencePenalty,
                                 FrequencyPenalty, NoRepeatNgram, LogitBias, Custom>;

// ---- Options ------------------------------------------------------------------------------------------------------

/// How tokens are chosen. `{}` is greedy; `{.temperature = 0.7f, .top_p = 0.9f}` is the usual; a `chain` says it all.
/// ModelInfo carries the options that the model's file recommends; they are used only when passed here.
///
/// Order of the work: mask, min_new_tokens, banned_tokens, banned_strings, logit_bias; then either `chain` as given, or
/// repetition, presence and frequency penalty, temperature, top_k, top_p, min_p. Setting both a chain and one of those
/// seven is an error. The token is then drawn from softmax(x) by inverse CDF in id order.
///
/// The same options, logits, history and sequence index give the same token on every platform: the random number is
/// Philox4x32-10 (Salmon et al. 2011) with key {seed low 32 bits, seed high 32 bits} and counter {position, attempt,
/// sequence, purpose}; the first output word's top 24 bits / 2^24. attempt is 0 and grows by one each time
/// banned_strings sends generation back to this position; purpose is 0 for the token and 1 + place in the chain for a
/// sampler's own.
struct SamplingOptions {
  std::optional<float> temperature{};  ///< unset: 1 if top_k, top_p or min_p is set, else greedy
  int top_k = 0;                       ///< 0: off
  float top_p = 1.0f;                  ///< 1: off
  float min_p = 0.0f;                  ///< 0: off
  float repetition_penalty = 1.0f;     ///< 1: off; with RepetitionPenalty's window
  float presence_penalty = 0.0f;       ///< over the new tokens
  float frequency_penalty = 0.0f;      ///< over the new tokens
  std::vector<SamplerSpec> chain{};    ///< at most 64

  std::uint64_t seed = 0;                     ///< one seed, one text; pass another for another text
  std::uint32_t sequence = 0;                 ///< which of the texts of one seed: the sequence index above
  std::vector<TokenBias> logit_bias{};        ///< at most 65,536
  std::vector<Token> banned_tokens{};         ///< at most 65,536
  std::vector<std::string> banned_strings{};  ///< at most 256, of 1 .. 256 bytes; none appears in the new text. When
                                              ///< one is complete, generation goes back to the token it begins in and
                                              ///< takes another; pieces are held back while one may be forming
  int min_new_tokens = 0;                     ///< until then stop tokens are banned
  std::shared_ptr<const MaskSource> mask{};   ///< always comes first
};

/// A token and its log-probability under softmax of the raw logits.
struct TopToken {
  Token token = 0;
  float logprob = 0.0f;
};

}  // namespace v0
}  // namespace llminfer
