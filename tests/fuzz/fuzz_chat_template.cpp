// Any bytes as a chat template, rendered over a fixed conversation: an error or a text, within the limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"

namespace jinja = llminfer::text::jinja;

namespace {

constexpr std::string_view conversation =
    R"([{"role": "user", "content": "hi <|im_end|>\u00e9"}, {"role": "assistant", "content": null, "tool_calls":
    [{"id": "1", "function": {"name": "f", "arguments": {"a": 1, "b": [2.5, true, null, "x"]}}}]}])";

// Runs are contiguous, not empty, and cover the text.
void check(const jinja::SpannedText& text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.runs().size(); ++i) {
    const jinja::Run& run = text.runs()[i];
    if (run.end <= end || (i > 0 && run.origin == text.runs()[i - 1].origin)) std::abort();
    end = run.end;
  }
  if (end != text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  jinja::Limits limits;
  limits.steps = 50'000;
  limits.memory_bytes = 1 << 20;
  limits.output_bytes = 1 << 18;
  try {
    const jinja::Program program = jinja::parse({reinterpret_cast<const char*>(data), size}, limits);
    jinja::Runtime runtime(limits, {2026, 3, 4, 5, 6, 7});
    jinja::Variables variables;
    variables.emplace_back("messages",
                           jinja::parse_json(runtime.meter, conversation, jinja::Origin::content, "messages"));
    variables.emplace_back("tools", jinja::Value::none());
    variables.emplace_back("s", jinja::make_string(&runtime.meter, "Some Text, \xC3\xA9", jinja::Origin::content));
    variables.emplace_back("n", jinja::Value::integer(-7));
    const jinja::SpannedText text = jinja::render(program, runtime, variables);
    check(text);
    if (text.size() > limits.output_bytes + limits.memory_bytes) std::abort();
  } catch (const llminfer::Exception&) {
  }
  return 0;
}
