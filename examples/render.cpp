// llminfer-render: conversations through a chat template, one JSON object a line.
//
// Standard input: {"messages": [...], "tools": [...], "add_generation_prompt": true, "bos_token": "<s>", ...}, every
// member a variable of the template. Standard output, a line for each: {"output": "..."}, or {"error": "..."} if the
// template refuses the conversation. With --spans: also "spans", [[text, is_markup], ...].
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <llminfer/chat.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

llminfer::ChatTime parse_time(const std::string& text) {
  llminfer::ChatTime t;
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &t.year, &t.month, &t.day, &t.hour, &t.minute, &t.second) != 6) {
    throw std::runtime_error("--now: \"" + text + "\" is no time such as 2026-03-04T05:06:07");
  }
  return t;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

json answer(const llminfer::ChatPrompt& prompt, bool spans) {
  json out = {{"output", prompt.text}};
  if (!spans) return out;
  out["spans"] = json::array();
  for (const llminfer::TextSpan& span : prompt.spans()) {
    out["spans"].push_back(json::array({std::string(span.text), span.markup}));
  }
  return out;
}

int run(const std::string& path, const std::string& now, bool spans) {
  const llminfer::ChatTemplate chat = llminfer::ChatTemplate::parse(read_file(path)).value();
  llminfer::ChatOptions options;
  options.add_generation_prompt = false;
  if (!now.empty()) options.now = parse_time(now);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    const llminfer::Result<llminfer::ChatPrompt> prompt = chat.render_json(line, options);
    const json out = prompt ? answer(*prompt, spans) : json{{"error", prompt.error().message}};
    std::cout << out.dump(-1, ' ', false, json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Conversations through a chat template");
  std::string path, now;
  bool jsonl = false, spans = false;
  app.add_option("template", path, "template file (Jinja)")->required();
  app.add_flag("--jsonl", jsonl, "lines of JSON on standard input and output")->required();
  app.add_option("--now", now, "what strftime_now shows, as 2026-03-04T05:06:07 (default: the clock, UTC)");
  app.add_flag("--spans", spans, "also show which text is markup");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(path, now, spans);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llminfer-render: %s\n", error.what());
    return 1;
  }
}
