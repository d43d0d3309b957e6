#include "text/chat_messages.h"

#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/convert.h"
#include "text/jinja/json.h"

namespace llminfer::text {
namespace {

using jinja::Kind;
using jinja::Origin;
using jinja::Value;

// Behind the last message's text. The space at its end tells whether the template trimmed the message.
constexpr std::string_view mark = "CONTINUE_FINAL_MESSAGE ";

bool plain_word(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
           c == '.';
  });
}

class Maker {
 public:
  explicit Maker(jinja::Meter& meter) : meter_(meter) {}

  Value message(const ChatMessage& message, const ReasoningNames& names, std::size_t index) {
    const std::string where = "messages[" + std::to_string(index) + "]";
    const auto made = jinja::new_dict(&meter_);
    made->set(key("role"),
              jinja::make_string(&meter_, message.role, plain_word(message.role) ? Origin::markup : Origin::content));
    made->set(key("content"), message.parts.empty() ? content(message.content) : parts(message.parts, where));
    if (!message.reasoning.empty()) {
      if (names.reasoning_content) made->set(key("reasoning_content"), content(message.reasoning));
      if (names.thinking) made->set(key("thinking"), content(message.reasoning));
      if (names.reasoning) made->set(key("reasoning"), content(message.reasoning));
    }
    if (!message.tool_calls.empty()) made->set(key("tool_calls"), tool_calls(message.tool_calls, where));
    if (!message.name.empty()) made->set(key("name"), content(message.name));
    if (!message.tool_call_id.empty()) made->set(key("tool_call_id"), content(message.tool_call_id));
    add_fields(*made, message.fields, where + ".fields");
    return {Kind::dict, made};
  }

 private:
  Value key(std::string_view name) { return jinja::make_string(&meter_, name); }
  Value content(std::string_view text) { return jinja::make_string(&meter_, text, Origin::content); }

  void add_fields(jinja::DictPayload& into, const std::string& json, const std::string& where) {
    if (json.empty()) return;
    const Value fields = jinja::parse_json(meter_, json, Origin::content, where);
    if (!fields.is(Kind::dict)) core::fail(ErrorCode::invalid_argument, "{}: must be a JSON object", where);
    for (const auto& [name, value] : fields.dict().entries) into.set(name, value);
  }

  Value parts(const std::vector<ContentPart>& parts, const std::string& where) {
    std::vector<Value> items;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto made = jinja::new_dict(&meter_);
      made->set(key("type"), content(parts[i].type));
      if (parts[i].type == "text" || !parts[i].text.empty()) made->set(key("text"), content(parts[i].text));
      add_fields(*made, parts[i].fields, where + ".parts[" + std::to_string(i) + "].fields");
      items.emplace_back(Kind::dict, made);
    }
    return jinja::make_list(meter_, std::move(items));
  }

  Value tool_calls(const std::vector<ToolCall>& calls, const std::string& where) {
    std::vector<Value> items;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto function = jinja::new_dict(&meter_), made = jinja::new_dict(&meter_);
      const std::string field = where + ".tool_calls[" + std::to_string(i) + "].arguments";
      function->set(key("name"), content(calls[i].name));
      function->set(key("arguments"), calls[i].arguments.empty()
                                          ? Value(Kind::dict, jinja::new_dict(&meter_))
                                          : jinja::parse_json(meter_, calls[i].arguments, Origin::content, field));
      if (!calls[i].id.empty()) made->set(key("id"), content(calls[i].id));
      made->set(key("type"), content("function"));
      made->set(key("function"), Value(Kind::dict, function));
      items.emplace_back(Kind::dict, made);
    }
    return jinja::make_list(meter_, std::move(items));
  }

  jinja::Meter& meter_;
};

bool quoted_or_attribute(std::string_view source, const std::string& name) {
  return source.find("." + name) != std::string_view::npos || source.find("'" + name + "'") != std::string_view::npos ||
         source.find("\"" + name + "\"") != std::string_view::npos;
}

Value marked(jinja::Meter& meter, const Value& text) {
  jinja::Builder out(meter);
  out.add(text.text());
  out.add(mark, Origin::tail);
  return out.string();
}

// A copy with one entry replaced.
Value with_entry(jinja::Meter& meter, const Value& dict, std::string_view name, Value value) {
  const auto made = jinja::new_dict(&meter);
  for (const auto& [key, old] : dict.dict().entries) made->set(key, old);
  made->set(jinja::make_string(&meter, name), std::move(value));
  return {Kind::dict, made};
}

const Value* text_entry(const Value& part) {
  if (!part.is(Kind::dict)) return nullptr;
  const Value* text = part.dict().find("text");
  return text != nullptr && text->is_string() ? text : nullptr;
}

}  // namespace

ReasoningNames reasoning_names(std::string_view source) {
  return {true, quoted_or_attribute(source, "thinking"), quoted_or_attribute(source, "reasoning")};
}

Value messages_value(jinja::Meter& meter, std::span<const ChatMessage> messages, const ReasoningNames& names) {
  Maker maker(meter);
  std::vector<Value> items;
  for (std::size_t i = 0; i < messages.size(); ++i) items.push_back(maker.message(messages[i], names, i));
  return jinja::make_list(meter, std::move(items));
}

void trust_roles(jinja::Meter& meter, const Value& messages) {
  if (!messages.is(Kind::list)) return;
  for (const Value& message : messages.items()) {
    if (!message.is(Kind::dict)) continue;
    const Value* role = message.dict().find("role");
    if (role == nullptr || !role->is_string() || !plain_word(role->view())) continue;
    message.dict().set(jinja::make_string(&meter, "role"), jinja::make_string(&meter, role->view()));
  }
}

Value mark_last_message(jinja::Meter& meter, const Value& messages) {
  const bool listed = messages.is(Kind::list) && !messages.items().empty() && messages.items().back().is(Kind::dict);
  const Value* content = listed ? messages.items().back().dict().find("content") : nullptr;
  Value replaced;
  if (content != nullptr && content->is_string()) {
    replaced = marked(meter, *content);
  } else if (content != nullptr && content->is(Kind::list)) {
    std::vector<Value> parts = content->items();
    const auto last =
        std::find_if(parts.rbegin(), parts.rend(), [](const Value& part) { return text_entry(part) != nullptr; });
    if (last != parts.rend()) {
      *last = with_entry(meter, *last, "text", marked(meter, *text_entry(*last)));
      replaced = jinja::make_list(meter, std::move(parts));
    }
  }
  if (replaced.is_undefined()) {
    core::fail(ErrorCode::invalid_argument, "continue_final_message: the last message has no text to continue");
  }
  std::vector<Value> all = messages.items();
  all.back() = with_entry(meter, all.back(), "content", std::move(replaced));
  return jinja::make_list(meter, std::move(all));
}

void cut_at_mark(jinja::SpannedText& text) {
  const auto& runs = text.runs();
  const auto last =
      std::find_if(runs.rbegin(), runs.rend(), [](const jinja::Run& run) { return run.origin == Origin::tail; });
  if (last == runs.rend()) {
    core::fail(ErrorCode::invalid_argument,
               "continue_final_message: the chat template does not show the last message as it is");
  }
  const std::size_t begin = std::next(last) == runs.rend() ? 0 : std::next(last)->end;
  const bool whole = text.view().substr(begin, last->end - begin) == mark;
  text.truncate(begin);
  if (whole) return;
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t start = jinja::previous_character(text.view(), end);
    if (!jinja::is_space(jinja::decode_character(text.view(), start).code)) break;
    end = start;
  }
  text.truncate(end);
}

}  // namespace llminfer::text
