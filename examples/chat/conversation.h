// A conversation with a model: messages, and a session that has read most of them already.
#pragma once

#include <cstddef>
#include <functional>
#include <llminfer/chat.hpp>
#include <llminfer/model.hpp>
#include <llminfer/session.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

/// For each answer the whole conversation goes through the template anew, so that it is right whatever the template
/// does with earlier turns; the session then keeps the tokens that have not changed and reads the rest.
class Conversation {
 public:
  /// `system`: the system prompt, empty for none. Throws if the template cannot express such conversations.
  Conversation(const llminfer::Model& model, llminfer::ChatTemplate chat, llminfer::Session session,
               const std::string& system);

  /// Asks, and hands the answer's text to `write` as it comes. An answer that was cancelled stays as far as it came; if
  /// nothing came, and on any error (thrown), the question is taken back too.
  llminfer::Outcome ask(std::string text, const llminfer::GenerateOptions& options,
                        const std::function<void(std::string_view)>& write, std::stop_token stop);

  /// Takes back the last question and its answer. False: there is none.
  bool undo();
  /// Takes back everything but the system prompt.
  void reset();

  std::span<const llminfer::ChatMessage> messages() const noexcept { return messages_; }
  /// Tokens in use, and how many there can be.
  int tokens() const noexcept { return static_cast<int>(session_.tokens().size()); }
  int context() const noexcept { return session_.context(); }

 private:
  struct Start {
    std::size_t messages = 0;
    int tokens = 0;
  };

  void add(const char* role, std::string content);
  void take_back(const Start& start);
  std::vector<llminfer::Token> prompt() const;
  void load(std::span<const llminfer::Token> prompt);
  llminfer::Outcome answer(const llminfer::GenerateOptions& options, const std::function<void(std::string_view)>& write,
                           std::stop_token stop);

  llminfer::Model model_;
  llminfer::ChatTemplate chat_;
  llminfer::Session session_;
  std::vector<llminfer::ChatMessage> messages_;
  std::vector<Start> exchanges_;  // what there was before each question
};

}  // namespace examples
