#include <llminfer/chat.hpp>
#include <llminfer/model_source.hpp>

#include "api/guard.h"
#include "format/model_file.h"
#include "text/chat_template.h"

namespace llminfer {
inline namespace v0 {

using api::guard;

class ChatTemplate::Body {
 public:
  Body(const std::vector<std::pair<std::string, std::string>>& sources, ChatTokens tokens)
      : templates(sources, std::move(tokens)) {}

  text::ChatTemplates templates;
};

namespace {

// The spellings that Hugging Face's templates know, as far as the vocabulary has them.
ChatTokens tokens_of(const text::TokenizerSpec& spec) {
  const std::pair<const char*, std::optional<Token>> named[] = {{"bos_token", spec.bos}, {"eos_token", spec.eos},
                                                                {"unk_token", spec.unk}, {"sep_token", spec.sep},
                                                                {"pad_token", spec.pad}, {"mask_token", spec.mask}};
  ChatTokens tokens;
  for (const auto& [name, id] : named) {
    if (id && *id >= 0 && static_cast<std::size_t>(*id) < spec.tokens.size()) {
      tokens.emplace_back(name, spec.tokens[static_cast<std::size_t>(*id)]);
    }
  }
  return tokens;
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const Body> body) noexcept : body_(std::move(body)) {}

Result<ChatTemplate> ChatTemplate::open(const ModelSource& source) {
  return guard("ChatTemplate::open", [&] {
    format::OpenOptions options;
    options.metadata_only = true;
    const format::ModelFile file = format::ModelFile::open(source, {}, options);
    const text::TokenizerSpec& spec = file.tokenizer();
    std::vector<std::pair<std::string, std::string>> sources;
    if (!spec.chat_template.empty()) sources.emplace_back("default", spec.chat_template);
    for (const auto& named : spec.named_templates) {
      if (named.first != "default" || spec.chat_template.empty()) sources.push_back(named);
    }
    return ChatTemplate(std::make_shared<const Body>(sources, tokens_of(spec)));
  });
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, ChatTokens tokens) {
  return guard("ChatTemplate::parse", [&] {
    std::vector<std::pair<std::string, std::string>> sources;
    sources.emplace_back("default", source);
    return ChatTemplate(std::make_shared<const Body>(sources, std::move(tokens)));
  });
}

Result<ChatTemplate> ChatTemplate::builtin(std::string_view name, ChatTokens tokens) {
  return guard("ChatTemplate::builtin", [&] {
    std::vector<std::pair<std::string, std::string>> sources;
    sources.emplace_back("default", text::ChatTemplates::builtin(name));
    return ChatTemplate(std::make_shared<const Body>(sources, std::move(tokens)));
  });
}

Result<ChatPrompt> ChatTemplate::render(std::span<const ChatMessage> messages, std::string_view tools,
                                        const ChatOptions& options) const {
  return guard("ChatTemplate::render", [&] { return body_->templates.render(messages, tools, options); });
}

Result<ChatPrompt> ChatTemplate::render_json(std::string_view conversation, const ChatOptions& options) const {
  return guard("ChatTemplate::render_json", [&] { return body_->templates.render_json(conversation, options); });
}

std::vector<std::string> ChatTemplate::names() const { return body_->templates.names(); }

Result<std::vector<Token>> ChatPrompt::encode(const Tokenizer& tokenizer) const {
  return guard("ChatPrompt::encode", [&] {
    EncodeOptions options;
    options.special = SpecialText::template_text;
    options.eos = AddToken::no;
    return tokenizer.encode_spans(spans(), options).value();
  });
}

}  // namespace v0
}  // namespace llminfer
