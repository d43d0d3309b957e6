#include "text/chat_template.h"

#include <algorithm>
#include <chrono>

#include "text/chat_messages.h"
#include "text/jinja/convert.h"
#include "text/jinja/json.h"

namespace llminfer {
inline namespace v0 {

std::vector<TextSpan> ChatPrompt::spans() const {
  std::vector<TextSpan> out;
  std::size_t begin = 0;
  for (const Range& range : ranges) {
    out.push_back({std::string_view(text).substr(begin, range.end - begin), range.markup});
    begin = range.end;
  }
  return out;
}

}  // namespace v0
}  // namespace llminfer

namespace llminfer::text {
namespace {

using jinja::Kind;
using jinja::Origin;
using jinja::Value;

constexpr std::string_view chatml =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}{{- part.text }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

jinja::LocalTime system_time() {
  using namespace std::chrono;
  const auto now = floor<seconds>(system_clock::now());
  const auto today = floor<days>(now);
  const year_month_day date(today);
  const hh_mm_ss time(now - today);
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(time.hours().count()),
          static_cast<int>(time.minutes().count()),
          static_cast<int>(time.seconds().count())};
}

void check_field(const char* name, int value, int low, int high) {
  if (value < low || value > high) {
    core::fail(ErrorCode::invalid_argument, "ChatOptions::now.{} is {}: {} to {} are allowed", name, value, low, high);
  }
}

jinja::LocalTime time_of(const ChatOptions& options) {
  if (!options.now) return system_time();
  const ChatTime& t = *options.now;
  check_field("year", t.year, 1, 9999);
  check_field("month", t.month, 1, 12);
  check_field("day", t.day, 1, 31);
  check_field("hour", t.hour, 0, 23);
  check_field("minute", t.minute, 0, 59);
  check_field("second", t.second, 0, 60);
  return {t.year, t.month, t.day, t.hour, t.minute, t.second};
}

void set(jinja::Variables& variables, std::string_view name, Value value) {
  const auto found =
      std::find_if(variables.begin(), variables.end(), [&](const auto& each) { return each.first == name; });
  if (found != variables.end()) {
    found->second = std::move(value);
  } else {
    variables.emplace_back(std::string(name), std::move(value));
  }
}

const Value* find(const jinja::Variables& variables, std::string_view name) {
  const auto found =
      std::find_if(variables.begin(), variables.end(), [&](const auto& each) { return each.first == name; });
  return found != variables.end() ? &found->second : nullptr;
}

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What every template may count on, and the caller's variables.
jinja::Variables basic_variables(jinja::Meter& meter, const ChatTokens& tokens, const ChatOptions& options) {
  jinja::Variables variables;
  for (const auto& [name, spelling] : tokens) set(variables, name, jinja::make_string(&meter, spelling));
  set(variables, "tools", Value::none());
  set(variables, "documents", Value::none());
  set(variables, "add_generation_prompt", Value::boolean(options.add_generation_prompt));
  for (const ChatVariable& variable : options.variables) {
    const Origin origin = variable.markup ? Origin::markup : Origin::content;
    set(variables, variable.name, jinja::parse_json(meter, variable.json, origin, "variable '" + variable.name + "'"));
  }
  return variables;
}

bool has_tools(const jinja::Variables& variables) {
  const Value* tools = find(variables, "tools");
  return tools != nullptr && jinja::truthy(*tools);
}

ChatPrompt to_prompt(const jinja::SpannedText& text) {
  ChatPrompt prompt;
  prompt.text = text.bytes();
  for (const jinja::Run& run : text.runs()) {
    const bool markup = run.origin == Origin::markup;
    if (!prompt.ranges.empty() && prompt.ranges.back().markup == markup) {
      prompt.ranges.back().end = run.end;
    } else {
      prompt.ranges.push_back({run.end, markup});
    }
  }
  return prompt;
}

}  // namespace

ChatTemplates::ChatTemplates(const std::vector<std::pair<std::string, std::string>>& sources, ChatTokens tokens,
                             jinja::Limits limits)
    : tokens_(std::move(tokens)), limits_(limits) {
  entries_.reserve(sources.size());
  for (const auto& [name, source] : sources) {
    Entry entry;
    entry.name = name;
    try {
      entry.program = jinja::parse(source, limits_);
    } catch (const Exception& failure) {
      if (entry.name == "default") throw;
      entry.broken = failure.error();
    }
    entries_.push_back(std::move(entry));
  }
  if (entries_.empty()) core::fail(ErrorCode::not_found, "the model has no chat template");
}

std::string_view ChatTemplates::builtin(std::string_view name) {
  if (name == "chatml") return chatml;
  core::fail(ErrorCode::not_found, "there is no built-in chat template '{}'", name);
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.name);
  return out;
}

const ChatTemplates::Entry& ChatTemplates::choose(const std::string& name, bool tools) const {
  const auto named = [&](std::string_view wanted) -> const Entry* {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == wanted; });
    return found != entries_.end() ? &*found : nullptr;
  };
  const Entry* entry = name.empty() && tools ? named("tool_use") : nullptr;
  if (entry == nullptr) entry = named(name.empty() ? "default" : name);
  if (entry == nullptr) {
    core::fail(ErrorCode::not_found, "the model has no chat template '{}'", name.empty() ? "default" : name);
  }
  if (entry->broken) throw Exception(*entry->broken);
  return *entry;
}

ChatPrompt ChatTemplates::run(const Entry& entry, jinja::Runtime& runtime, jinja::Variables variables,
                              bool continued) const {
  if (continued) {
    if (jinja::truthy(*find(variables, "add_generation_prompt"))) {
      core::fail(ErrorCode::invalid_argument, "continue_final_message and add_generation_prompt exclude each other");
    }
    const Value* messages = find(variables, "messages");
    set(variables, "messages", mark_last_message(runtime.meter, messages != nullptr ? *messages : Value()));
  }
  jinja::SpannedText text = jinja::render(entry.program, runtime, variables);
  if (continued) cut_at_mark(text);
  return to_prompt(text);
}

ChatPrompt ChatTemplates::render(std::span<const ChatMessage> messages, std::string_view tools,
                                 const ChatOptions& options) const {
  jinja::Runtime runtime(limits_, time_of(options));
  jinja::Variables variables = basic_variables(runtime.meter, tokens_, options);
  if (!tools.empty()) set(variables, "tools", jinja::parse_json(runtime.meter, tools, Origin::content, "tools"));
  const Entry& entry = choose(options.template_name, has_tools(variables));
  set(variables, "messages", messages_value(runtime.meter, messages, reasoning_names(entry.program.source)));
  return run(entry, runtime, std::move(variables), options.continue_final_message);
}

ChatPrompt ChatTemplates::render_json(std::string_view conversation, const ChatOptions& options) const {
  jinja::Runtime runtime(limits_, time_of(options));
  jinja::Variables variables = basic_variables(runtime.meter, tokens_, options);
  const Value parsed = jinja::parse_json(runtime.meter, conversation, Origin::content, "conversation");
  if (!parsed.is(Kind::dict)) core::fail(ErrorCode::invalid_argument, "conversation: must be a JSON object");
  bool continued = options.continue_final_message;
  for (const auto& [name, value] : parsed.dict().entries) {
    if (name.view() == "continue_final_message") {
      continued = jinja::truthy(value);
    } else if (ends_with(name.view(), "_token") && value.is_string()) {
      set(variables, name.view(), jinja::make_string(&runtime.meter, value.view()));
    } else {
      set(variables, name.view(), value);
    }
  }
  if (const Value* messages = find(variables, "messages")) trust_roles(runtime.meter, *messages);
  const Entry& entry = choose(options.template_name, has_tools(variables));
  return run(entry, runtime, std::move(variables), continued);
}

}  // namespace llminfer::text
