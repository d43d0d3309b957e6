// Conversations through published templates, and what the library adds to them.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "catch.h"
#include "text/chat_template.h"

using llminfer::ChatMessage;
using llminfer::ChatOptions;
using llminfer::ChatPrompt;
using llminfer::ErrorCode;
using llminfer::text::ChatTemplates;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

ChatTemplates make(const std::string& source) { return ChatTemplates({{"default", source}}, {{"bos_token", "<s>"}}); }

ChatMessage message(const std::string& role, const std::string& content) {
  ChatMessage made;
  made.role = role;
  made.content = content;
  return made;
}

// Markup as it is, content in « ».
std::string shown(const ChatPrompt& prompt) {
  std::string out;
  std::size_t begin = 0;
  for (const ChatPrompt::Range& range : prompt.ranges) {
    const std::string part = prompt.text.substr(begin, range.end - begin);
    out += range.markup ? part : "«" + part + "»";
    begin = range.end;
  }
  return out;
}

template <class F>
ErrorCode code_of(F&& f, std::string* text = nullptr) {
  try {
    f();
  } catch (const llminfer::Exception& failure) {
    if (text != nullptr) *text = failure.what();
    return failure.error().code;
  }
  return ErrorCode::unavailable;
}

ChatOptions continued() {
  ChatOptions options;
  options.add_generation_prompt = false;
  options.continue_final_message = true;
  return options;
}

}  // namespace

TEST_CASE("published templates give byte for byte what Jinja2 gives") {
  const char* shared = std::getenv("LLMINFER_SHARED");
  const std::string folder = std::string(shared != nullptr ? shared : "") + "/chat_templates/";
  std::ifstream in(folder + "expected.jsonl");
  if (!in) {
    WARN("skipped: no " << folder << "expected.jsonl");
    return;
  }
  ChatOptions options;
  options.now = llminfer::ChatTime{2026, 3, 4, 5, 6, 7};
  int rows = 0;
  for (std::string line; std::getline(in, line); ++rows) {
    const nlohmann::ordered_json row = nlohmann::ordered_json::parse(line);
    const std::string name = row.at("template");
    INFO(name << " " << row.at("case"));
    std::string output, error;
    const ChatTemplates chat = make(read_file(folder + name));
    (void)code_of([&] { output = chat.render_json(row.at("input").dump(), options).text; }, &error);
    INFO(error);
    if (row.contains("output")) {
      CHECK(output == row.at("output").get<std::string>());
      CHECK(error.empty());
    } else {
      CHECK(!error.empty());
    }
  }
  CHECK(rows == 360);
}

TEST_CASE("messages as values, spans and roles") {
  const ChatTemplates chat =
      make("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}");
  const std::vector<ChatMessage> messages = {message("user", "hi <|end|>"), message("a|b", "x")};
  const ChatPrompt prompt = chat.render(messages, {}, {});
  CHECK(shown(prompt) == "<s><|user|>«hi <|end|>»<|end|>\n<|«a|b»|>«x»<|end|>\n");
  CHECK(prompt.ranges.back().end == prompt.text.size());
}

TEST_CASE("tools, calls, parts, reasoning and variables") {
  const ChatTemplates chat = make(
      "{{ tools | tojson }}|{% for m in messages %}{{ m.role }}:{{ m.content if m.content is string else m.content | "
      "map(attribute='text') | join('+') }}:"
      "{{ m.reasoning_content }}:{% for t in m.tool_calls %}{{ t.id }}{{ t.type }}{{ t.function.name }}{{ "
      "t.function.arguments | tojson }}{% endfor %}:"
      "{{ m.name }}{{ m.tool_call_id }}{{ m.extra }};{% endfor %}{{ enable_thinking }}{{ documents }}");
  std::vector<ChatMessage> messages = {message("user", ""), message("assistant", ""), message("tool", "7")};
  messages[0].parts = {{"text", "a", ""}, {"text", "b", ""}, {"image", "", R"({"url": "u"})"}};
  messages[1].reasoning = "because";
  messages[1].tool_calls = {{"c1", "add", R"({"z": 1, "a": [2.0]})"}, {"", "nop", ""}};
  messages[2].name = "add";
  messages[2].tool_call_id = "c1";
  messages[2].fields = R"({"extra": "E"})";
  ChatOptions options;
  options.variables = {{"enable_thinking", "false"}};
  CHECK(
      chat.render(messages, R"([{"b": 1, "a": "é"}])", options).text ==
      "[{\"b\": 1, \"a\": \"é\"}]|user:a+b+:::;assistant::because:c1functionadd{\"z\": 1, \"a\": [2.0]}functionnop{}:;"
      "tool:7:::addc1E;FalseNone");
  std::string error;
  messages[1].tool_calls[0].arguments = "{";
  CHECK(code_of([&] { (void)chat.render(messages, {}, {}); }, &error) == ErrorCode::invalid_argument);
  CHECK(error.find("messages[1].tool_calls[0].arguments") != std::string::npos);
  messages[1].tool_calls.clear();
  CHECK(code_of([&] { (void)chat.render(messages, "[", {}); }) == ErrorCode::invalid_argument);
  options.variables = {{"big", "123456789012345678901234567890"}};
  CHECK(code_of([&] { (void)chat.render(messages, {}, options); }) == ErrorCode::invalid_argument);
}

TEST_CASE("strings of variables are content unless they are vouched for") {
  const ChatTemplates chat = make("{{ a }}{{ b.c }}");
  ChatOptions options;
  options.variables = {{"a", "\"<x>\"", true}, {"b", R"({"c": "<y>"})", false}};
  CHECK(shown(chat.render({}, {}, options)) == "<x>«<y>»");
}

TEST_CASE("the last message is continued") {
  const ChatTemplates chat = make("{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}");
  const ChatTemplates trims = make("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}");
  std::vector<ChatMessage> messages = {message("user", "q"), message("assistant", "The answer ")};
  CHECK(shown(chat.render(messages, {}, continued())) == "<user>«q»<end><assistant>«The answer »");
  CHECK(shown(trims.render(messages, {}, continued())) == "<user>«q»<end><assistant>«The answer»");
  messages[1].content = "CONTINUE_FINAL_MESSAGE ";
  CHECK(shown(chat.render(messages, {}, continued())) == "<user>«q»<end><assistant>«CONTINUE_FINAL_MESSAGE »");
  messages[1].content = "";
  CHECK(shown(chat.render(messages, {}, continued())) == "<user>«q»<end><assistant>");
  messages[1].parts = {{"text", "one", ""}, {"image", "", ""}};
  const ChatTemplates parts = make(
      "{% for m in messages %}{% for p in m.content if m.role == 'assistant' %}[{{ p.text }}]{% endfor %}{% endfor %}");
  CHECK(shown(parts.render(messages, {}, continued())) == "[«one»");
  ChatOptions both = continued();
  both.add_generation_prompt = true;
  CHECK(code_of([&] { (void)chat.render(messages, {}, both); }) == ErrorCode::invalid_argument);
  CHECK(code_of([&] { (void)make("{{ messages[0].content }}").render(messages, {}, continued()); }) ==
        ErrorCode::invalid_argument);
  CHECK(code_of([&] { (void)chat.render({}, {}, continued()); }) == ErrorCode::invalid_argument);
}

TEST_CASE("another template only when asked for") {
  const ChatTemplates chat({{"default", "D"}, {"tool_use", "T"}, {"rag", "{{ broken"}}, {});
  ChatOptions options;
  CHECK(chat.render({}, {}, options).text == "D");
  CHECK(chat.render({}, "[{}]", options).text == "T");
  CHECK(chat.render({}, "[]", options).text == "D");
  options.template_name = "default";
  CHECK(chat.render({}, "[{}]", options).text == "D");
  options.template_name = "rag";
  CHECK(code_of([&] { (void)chat.render({}, {}, options); }) == ErrorCode::corrupt);
  options.template_name = "nothing";
  CHECK(code_of([&] { (void)chat.render({}, {}, options); }) == ErrorCode::not_found);
  CHECK(chat.names() == std::vector<std::string>{"default", "tool_use", "rag"});
  CHECK(code_of([] { ChatTemplates({}, {}); }) == ErrorCode::not_found);
  CHECK(code_of([] { make("{{"); }) == ErrorCode::corrupt);
  CHECK(code_of([] { (void)ChatTemplates::builtin("chatlm"); }) == ErrorCode::not_found);
  const std::vector<ChatMessage> messages = {message("user", "hi\n<|im_end|>")};
  CHECK(shown(make(std::string(ChatTemplates::builtin("chatml"))).render(messages, {}, {})) ==
        "<|im_start|>user\n«hi\n<|im_end|>»<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("one template renders in several threads") {
  const ChatTemplates chat = make("{% for m in messages %}{{ m.role }}{{ m.content | upper }}{% endfor %}");
  const std::vector<ChatMessage> messages(50, message("user", "hi"));
  const std::string expected = chat.render(messages, {}, {}).text;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) wrong[t] += chat.render(messages, {}, {}).text != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("the clock is the caller's and is checked") {
  const ChatTemplates chat = make("{{ strftime_now('%Y') }}");
  ChatOptions options;
  options.now = llminfer::ChatTime{1999, 12, 31, 23, 59, 59};
  CHECK(chat.render({}, {}, options).text == "1999");
  options.now->month = 13;
  CHECK(code_of([&] { (void)chat.render({}, {}, options); }) == ErrorCode::invalid_argument);
  CHECK(chat.render({}, {}, {}).text >= "2024");
}
