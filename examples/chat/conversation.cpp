#include "conversation.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace examples {

Conversation::Conversation(const llminfer::Model& model, llminfer::ChatTemplate chat, llminfer::Session session,
                           const std::string& system)
    : model_(model), chat_(std::move(chat)), session_(std::move(session)) {
  if (!system.empty()) add("system", system);
  const Start start{messages_.size(), 0};
  add("user", "Hello");
  (void)prompt();  // throws now rather than at the first question
  take_back(start);
}

llminfer::Outcome Conversation::ask(std::string text, const llminfer::GenerateOptions& options,
                                    const std::function<void(std::string_view)>& write, std::stop_token stop) {
  const Start start{messages_.size(), tokens()};
  add("user", std::move(text));
  try {
    load(prompt());
    llminfer::Outcome outcome = answer(options, write, std::move(stop));
    if (outcome.finish == llminfer::Finish::cancelled && messages_.back().content.empty()) {
      take_back(start);
    } else {
      exchanges_.push_back(start);
    }
    return outcome;
  } catch (...) {
    take_back(start);
    throw;
  }
}

bool Conversation::undo() {
  if (exchanges_.empty()) return false;
  take_back(exchanges_.back());
  exchanges_.pop_back();
  return true;
}

void Conversation::reset() {
  if (exchanges_.empty()) return;
  take_back(exchanges_.front());
  exchanges_.clear();
}

void Conversation::add(const char* role, std::string content) {
  llminfer::ChatMessage& message = messages_.emplace_back();
  message.role = role;
  message.content = std::move(content);
}

void Conversation::take_back(const Start& start) {
  messages_.resize(start.messages);
  session_.rewind(std::min(start.tokens, tokens())).value();
}

std::vector<llminfer::Token> Conversation::prompt() const {
  return chat_.render(messages_).value().encode(model_.tokenizer()).value();
}

// Makes `prompt` the session's history; what they have in common from the start on is not computed again.
void Conversation::load(std::span<const llminfer::Token> prompt) {
  if (prompt.size() >= static_cast<std::size_t>(context())) {
    throw std::runtime_error("the conversation would take " + std::to_string(prompt.size()) +
                             " tokens and leave no room for an answer in the context of " + std::to_string(context()) +
                             " (/undo and /reset make room)");
  }
  const std::span<const llminfer::Token> held = session_.tokens();
  const auto differ = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end());
  const auto common = static_cast<std::size_t>(differ.first - held.begin());
  session_.rewind(static_cast<int>(common)).value();
  session_.append(prompt.subspan(common)).value();
}

llminfer::Outcome Conversation::answer(const llminfer::GenerateOptions& options,
                                       const std::function<void(std::string_view)>& write, std::stop_token stop) {
  llminfer::Generator generator = session_.generate(options).value();
  std::string text;
  while (const llminfer::Piece* piece = generator.next(stop).value()) {
    text += piece->text;
    if (!piece->text.empty()) write(piece->text);
  }
  add("assistant", std::move(text));
  return generator.outcome();
}

}  // namespace examples
