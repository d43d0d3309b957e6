#include "prompts.h"

#include <nlohmann/json.hpp>

namespace examples {
namespace {

using nlohmann::json;

Prompt parse(const std::string& line) {
  const json object = json::parse(line);
  if (!object.is_object()) throw std::invalid_argument("not a JSON object");
  const auto text = object.find("prompt");
  if (text == object.end() || !text->is_string()) throw std::invalid_argument("no \"prompt\" that is a string");
  Prompt out;
  out.text = text->get<std::string>();
  if (const auto it = object.find("max_tokens"); it != object.end()) {
    if (!it->is_number_integer() || it->get<std::int64_t>() < 0 || it->get<std::int64_t>() > (1 << 30)) {
      throw std::invalid_argument("\"max_tokens\" is not a whole number from 0 to 2^30");
    }
    out.max_tokens = it->get<int>();
  }
  if (const auto it = object.find("seed"); it != object.end()) {
    if (!it->is_number_unsigned()) throw std::invalid_argument("\"seed\" is not a whole number from 0 on");
    out.seed = it->get<std::uint64_t>();
  }
  return out;
}

}  // namespace

std::optional<Prompt> PromptReader::next() {
  std::string line;
  while (std::getline(in_, line)) {
    ++line_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    Prompt out;
    if (!json_) {
      out.text = std::move(line);
      return out;
    }
    try {
      return parse(line);
    } catch (const json::exception&) {
      out.error = "line " + std::to_string(line_) + ": not JSON";
    } catch (const std::invalid_argument& error) {
      out.error = "line " + std::to_string(line_) + ": " + error.what();
    }
    return out;
  }
  return {};
}

}  // namespace examples
