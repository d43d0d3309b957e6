// Conversations to prompts: a model's own chat template, rendered so that nothing a user writes can pass for markup.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <llminfer/error.hpp>
#include <llminfer/export.hpp>
#include <llminfer/tokenizer.hpp>
#include <llminfer/types.hpp>

namespace llminfer {
inline namespace v0 {

class ModelSource;

/// A call of a tool that the assistant asked for.
struct ToolCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  ///< JSON, an object; empty: {}
};

/// One part of a message's content.
struct ContentPart {
  std::string type = "text";  ///< "text", or what else the template knows ("image", ...)
  std::string text{};         ///< of type "text"
  std::string fields{};       ///< further fields as a JSON object, e.g. {"url": "..."}; may be empty
};

/// One message of a conversation. Fields left empty are not shown to the template, content excepted.
struct ChatMessage {
  std::string role{};  ///< "system", "user", "assistant", "tool", or what else the template knows
  std::string content{};
  std::vector<ContentPart> parts{};  ///< typed content: takes the place of `content` unless empty
  std::vector<ToolCall> tool_calls{};
  std::string tool_call_id{};  ///< of a tool's answer: the call it answers
  std::string name{};          ///< of a tool's answer: the tool
  std::string reasoning{};  ///< what the assistant thought; templates see it as reasoning_content (thinking, reasoning)
  std::string fields{};     ///< further fields as a JSON object; may be empty
};

/// A variable for the template ("enable_thinking", "documents", ...).
struct ChatVariable {
  std::string name{};
  std::string json{};   ///< its value, as JSON
  bool markup = false;  ///< its strings may spell control tokens: only for values that no stranger has a hand in
};

/// Civil date and time, for templates that show today's date.
struct ChatTime {
  int year = 1970, month = 1, day = 1;
  int hour = 0, minute = 0, second = 0;
};

/// How to render.
struct ChatOptions {
  bool add_generation_prompt = true;    ///< end with the start of an assistant's turn
  bool continue_final_message = false;  ///< end inside the last message, for the model to go on with it. Needs
                                        ///< add_generation_prompt = false
  std::string template_name{};  ///< one of names(); empty: "tool_use" if there are tools and it exists, else "default"
  std::vector<ChatVariable> variables{};
  std::optional<ChatTime> now{};  ///< what strftime_now shows; left out: the system's clock, UTC
};

/// A rendered conversation: text, and which of it is markup.
struct LLMINFER_API ChatPrompt {
  /// Bytes from the end of the range before up to `end`.
  struct Range {
    std::size_t end = 0;
    bool markup = false;  ///< the template's own words; control tokens are recognised here and nowhere else
  };

  std::string text{};
  std::vector<Range> ranges{};  ///< ascending; the last one ends at text.size(). Neighbours differ

  /// The same as views into text, for Tokenizer::encode_spans.
  std::vector<TextSpan> spans() const;
  /// Tokens of the prompt: control tokens from markup only, BOS once where the model wants it (whether the template
  /// writes it or not), no EOS added.
  Result<std::vector<Token>> encode(const Tokenizer& tokenizer) const;
};

/// Spellings of special tokens that templates may write: ("bos_token", "<s>"), ("eos_token", "</s>"), ...
using ChatTokens = std::vector<std::pair<std::string, std::string>>;

/// (any thread) A model's chat template, parsed once; copies share it. Templates are Jinja, run in a sandbox with
/// limits on steps, depth, memory and output. Nothing stands in for a template that is missing or broken: that is an
/// error.
///
/// Errors of a template's source are `corrupt`, errors of a run (the conversation does not fit the template, a limit is
/// exceeded) `invalid_argument`; both name line and column, and what a template says by raise_exception stands in the
/// message.
class LLMINFER_API ChatTemplate {
 public:
  /// The templates of a model file. Errors: those of opening the file; not_found when it has none; corrupt when its
  /// default one is broken.
  static Result<ChatTemplate> open(const ModelSource& source);
  /// From source text.
  static Result<ChatTemplate> parse(std::string_view source, ChatTokens tokens = {});
  /// One of the library's own, to be asked for by name: "chatml". Error: not_found.
  static Result<ChatTemplate> builtin(std::string_view name, ChatTokens tokens = {});

  /// The prompt for a conversation. `tools`: a JSON array of tool descriptions, or empty for none. Text of messages and
  /// tools, names and keys included, is never markup; roles made of letters, digits, '_', '-' and '.' are.
  Result<ChatPrompt> render(std::span<const ChatMessage> messages, std::string_view tools = {},
                            const ChatOptions& options = {}) const;
  /// As render, with a JSON object {"messages": [...], "tools": [...], ...} as other programs write them; further
  /// members are variables. A member add_generation_prompt or continue_final_message goes before the option; members
  /// that end in
  /// "_token" go before the model's and are markup.
  Result<ChatPrompt> render_json(std::string_view conversation, const ChatOptions& options = {}) const;

  /// "default", "tool_use", ...: what template_name may be.
  std::vector<std::string> names() const;

 private:
  class Body;
  explicit ChatTemplate(std::shared_ptr<const Body> body) noexcept;
  std::shared_ptr<const Body> body_;
};

}  // namespace v0
}  // namespace llminfer
