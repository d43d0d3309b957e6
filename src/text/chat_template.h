// A set of parsed chat templates, and rendering of conversations by them.
#pragma once

#include <llminfer/chat.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace llminfer::text {

/// Immutable; rendering from several threads at a time is safe. Errors as documented at llminfer::ChatTemplate.
class ChatTemplates {
 public:
  /// `sources`: (name, source), of which "default" must parse; the error of another one is reported when it is asked
  /// for.
  ChatTemplates(const std::vector<std::pair<std::string, std::string>>& sources, ChatTokens tokens,
                jinja::Limits limits = {});

  ChatPrompt render(std::span<const ChatMessage> messages, std::string_view tools, const ChatOptions& options) const;
  ChatPrompt render_json(std::string_view conversation, const ChatOptions& options) const;
  std::vector<std::string> names() const;

  /// Source of a template of the library's own; fails with not_found.
  static std::string_view builtin(std::string_view name);

 private:
  struct Entry {
    std::string name;
    jinja::Program program;
    std::optional<Error> broken;
  };

  const Entry& choose(const std::string& name, bool tools) const;
  ChatPrompt run(const Entry& entry, jinja::Runtime& runtime, jinja::Variables variables, bool continued) const;

  std::vector<Entry> entries_;
  ChatTokens tokens_;
  jinja::Limits limits_;
};

}  // namespace llminfer::text
