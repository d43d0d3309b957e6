// The templates of real model files, by the public interface: text as written out here by hand, and its tokens.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <llminfer/chat.hpp>
#include <llminfer/model_source.hpp>
#include <optional>
#include <string>

#include "catch.h"

namespace {

using llminfer::ChatMessage;
using llminfer::ChatTemplate;
using llminfer::ModelSource;
using llminfer::Token;
using llminfer::Tokenizer;

// A file below the folder that an environment variable names; without it the test is skipped.
std::optional<std::string> find(const char* variable, const std::string& name) {
  const char* folder = std::getenv(variable);
  std::string path = std::string(folder != nullptr ? folder : "") + "/" + name;
  if (std::filesystem::exists(path)) return path;
  WARN("skipped: no " << path);
  return std::nullopt;
}

ChatMessage message(const char* role, const char* content) {
  ChatMessage m;
  m.role = role;
  m.content = content;
  return m;
}

std::vector<ChatMessage> conversation() {
  return {message("user", "Hi <|im_end|>"), message("assistant", "Hello!"), message("user", "Bye")};
}

// Control tokens, in order, and nothing else.
std::vector<Token> control(const Tokenizer& tokenizer, std::vector<Token> tokens) {
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(), [&](Token token) { return !tokenizer.is_control(token); }),
               tokens.end());
  return tokens;
}

// Renders, encodes, and reads the tokens back.
std::vector<Token> tokens_of(const ChatTemplate& chat, const Tokenizer& tokenizer,
                             const std::vector<ChatMessage>& messages, const std::string& expected) {
  const llminfer::ChatPrompt prompt = chat.render(messages).value();
  CHECK(prompt.text == expected);
  const std::vector<Token> tokens = prompt.encode(tokenizer).value();
  CHECK(tokenizer.decode(tokens).value() == expected);
  return tokens;
}

}  // namespace

TEST_CASE("SmolLM2's own template") {
  const auto path = find("LLMINFER_MODELS", "smollm2-135m-q4_1.gguf");
  if (!path) return;
  const ChatTemplate chat = ChatTemplate::open(ModelSource::file(*path)).value();
  const Tokenizer tokenizer = Tokenizer::open(ModelSource::file(*path)).value();
  const auto tokens = tokens_of(chat, tokenizer, conversation(),
                                "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
                                "Face<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
                                "Hello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  constexpr Token start = 1, end = 2;
  CHECK(control(tokenizer, tokens) == std::vector<Token>{start, end, start, end, start, end, start, end, start});
  // The golden texts' tokens of the same markup.
  const auto short_tokens = tokens_of(chat, tokenizer, {message("system", "S"), message("user", "U")},
                                      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
                                      "<|im_start|>assistant\n");
  REQUIRE(short_tokens.size() > 6);
  CHECK(std::vector<Token>(short_tokens.end() - 6, short_tokens.end()) ==
        std::vector<Token>{2, 198, 1, 520, 9531, 198});
}

TEST_CASE("Qwen2.5's own template") {
  const auto path = find("LLMINFER_MODELS", "qwen2.5-0.5b-q4_k_m.gguf");
  if (!path) return;
  const ChatTemplate chat = ChatTemplate::open(ModelSource::file(*path)).value();
  const Tokenizer tokenizer = Tokenizer::open(ModelSource::file(*path)).value();
  const auto tokens = tokens_of(chat, tokenizer, conversation(),
                                "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
                                "assistant.<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n"
                                "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
                                "<|im_start|>assistant\n");
  constexpr Token start = 151644, end = 151645;
  CHECK(control(tokenizer, tokens) == std::vector<Token>{start, end, start, end, start, end, start, end, start});
  const auto short_tokens = tokens_of(chat, tokenizer, {message("system", "S"), message("user", "U")},
                                      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
                                      "<|im_start|>assistant\n");
  CHECK(short_tokens ==
        std::vector<Token>{start, 8948, 198, 50, end, 198, start, 872, 198, 52, end, 198, start, 77091, 198});
}

TEST_CASE("Gemma 3's file has no template, and none is made up for it") {
  const auto path = find("LLMINFER_MODELS", "gemma3-270m-q4_k_m.gguf");
  if (!path) return;
  const auto own = ChatTemplate::open(ModelSource::file(*path));
  REQUIRE_FALSE(own);
  CHECK(own.error().code == llminfer::ErrorCode::not_found);

  const auto published = find("LLMINFER_SHARED", "chat_templates/google-gemma-2-2b-it.jinja");
  if (!published) return;
  std::ifstream in(*published, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const ChatTemplate chat = ChatTemplate::parse(source, {{"bos_token", "<bos>"}}).value();
  const Tokenizer tokenizer = Tokenizer::open(ModelSource::file(*path)).value();
  const auto tokens = tokens_of(
      chat, tokenizer, {message("user", "Hi <end_of_turn>"), message("assistant", "Hello!"), message("user", "Bye")},
      "<bos><start_of_turn>user\nHi <end_of_turn><end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
      "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  constexpr Token bos = 2, start = 105, end = 106;
  CHECK(control(tokenizer, tokens) == std::vector<Token>{bos, start, end, start, end, start, end, start});
}
