// A sequence of tokens that a model has read or will read, with its cached keys and values.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <stop_token>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/generator.hpp>
#include <llminfer/model.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {

/// Token history and its pages of a pool that it shares with its forks. Move-only; one thread at a time (forks may be
/// used from different threads: their steps take turns). Once open, appending, computing and generating allocate
/// nothing large.
class LLMINFER_API Session {
 public:
  /// Takes all memory at once. Errors: invalid_argument naming the option, out_of_memory.
  static Result<Session> open(const Model& model, SessionOptions options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// Adds tokens and reserves their pages; computes nothing. On an error the history is as before: invalid_argument
  /// naming an id outside the vocabulary, context_overflow (needed and available in tokens), out_of_pages (in pages).
  Result<void> append(std::span<const Token> tokens);

  /// Computes what was appended and is not computed yet, so that logits() belong to the last token. Error cancelled
  /// after a stop request: the history is kept, whole chunks stay computed.
  Result<void> prefill(std::stop_token stop = {});

  /// Appends tokens and hands out the logits of each of them: `on_row(position, logits)`, position counting from the
  /// start of the history; false ends early (the rest stays appended, uncomputed). What it throws is Error
  /// callback_failed.
  Result<void> score(std::span<const Token> tokens, const std::function<bool(int, std::span<const float>)>& on_row,
                     std::stop_token stop = {});

  /// Logits [vocabulary] of the last token of the history; empty before it is computed. Valid until the next call.
  std::span<const float> logits() const noexcept;

  /// Starts a generation. The history must not be empty. Options out of range: invalid_argument naming the field.
  Result<Generator> generate(GenerateOptions options = {}) &;
  Result<Generator> generate(GenerateOptions options = {}) && = delete;  // the Generator borrows the Session

  /// A session with the same history that shares the pages until one of the two writes into them.
  Result<Session> fork() const;

  /// Writes the history and what is computed of it, so that restore() goes on without computing it again: the same
  /// tokens come out, on the CPU the same bits. The options of a generation are not part of it. What is to be restored
  /// on other machines wants types of keys and values that LoadOptions name: the automatic ones differ by processor.
  /// Errors: unavailable when the stream fails, invalid_argument while a Generator is at work.
  Result<void> save(std::ostream& out) const;
  /// The session that save() wrote, in any process. `model` must be of the same file, on a device with the same page
  /// layout, with the same types of keys and values: else mismatch, naming the field. What is wrong with the bytes:
  /// truncated, corrupt. A history beyond `options.context`: context_overflow. Reads no byte behind the saved session.
  static Result<Session> restore(const Model& model, std::istream& in, SessionOptions options = {});

  /// Goes back to the first `tokens` tokens of the history (0 .. its length). In models with windowed layers, going
  /// back by more than about a page (DeviceInfo::page_size) makes the whole history uncomputed once it has outgrown the
  /// window.
  Result<void> rewind(int tokens);

  /// The history, computed or not. Valid until the next call.
  std::span<const Token> tokens() const noexcept;
  /// Most tokens that the history can have.
  int context() const noexcept;

  class Body;
  /// For the library's own use.
  explicit Session(std::shared_ptr<Body> body) noexcept;
  const std::shared_ptr<Body>& body() const noexcept { return body_; }

 private:
  std::shared_ptr<Body> body_;
};

}  // namespace v0
}  // namespace llminfer
