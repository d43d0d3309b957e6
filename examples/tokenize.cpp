// llminfer-tokenize: text to token ids, one JSON object a line.
//
// Standard input: {"text": "...", "special": "none"|"parse", "bos": true|false}.
//   special  "none" where left out
//   bos      false where left out; true adds the tokens that the model wants around a text (BOS, for some EOS)
// Standard output, in ASCII: {"ids": [...], "text": "..."} or {"error": "..."}.
//   text     the ids decoded, without the tokens that bos added; what is not UTF-8 as U+FFFD
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <llminfer/model_source.hpp>
#include <llminfer/tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

llminfer::EncodeOptions options_of(const json& line) {
  llminfer::EncodeOptions options;
  const std::string special = line.value("special", "none");
  if (special == "parse") {
    options.special = llminfer::SpecialText::parse;
  } else if (special == "template") {
    options.special = llminfer::SpecialText::template_text;
  } else if (special != "none") {
    throw std::runtime_error("special: \"" + special + "\" is neither \"none\" nor \"parse\" nor \"template\"");
  }
  if (!line.value("bos", false)) options.bos = options.eos = llminfer::AddToken::no;
  return options;
}

json answer(const llminfer::Tokenizer& tokenizer, const std::string& input) {
  const json line = json::parse(input);
  const llminfer::Encoding encoding =
      tokenizer.encode_ranges(line.at("text").get_ref<const std::string&>(), options_of(line)).value();
  std::vector<llminfer::Token> spelled;
  for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
    const bool added = encoding.ranges[i].begin == encoding.ranges[i].end && tokenizer.is_control(encoding.tokens[i]);
    if (!added) spelled.push_back(encoding.tokens[i]);
  }
  return {{"ids", encoding.tokens}, {"text", tokenizer.decode(spelled).value()}};
}

int run(const std::string& model) {
  const llminfer::Tokenizer tokenizer = llminfer::Tokenizer::open(llminfer::ModelSource::file(model)).value();
  int status = 0;
  for (std::string input; std::getline(std::cin, input);) {
    if (input.empty()) continue;
    json output;
    try {
      output = answer(tokenizer, input);
    } catch (const std::exception& error) {
      output = {{"error", error.what()}};
      status = 1;
    }
    std::cout << output.dump(-1, ' ', true, json::error_handler_t::replace) << '\n' << std::flush;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Text to token ids");
  std::string model;
  bool jsonl = false;
  app.add_option("model", model, "model or vocabulary file")->required();
  app.add_flag("--jsonl", jsonl, "lines of JSON on standard input and output")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(model);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llminfer-tokenize: %s\n", error.what());
    return 1;
  }
}
