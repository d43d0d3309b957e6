// Unigram models against sentencepiece (see tests/golden/text/make_unigram.py).
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.h"
#include "vocab_files.h"

namespace llminfer::test {
namespace {

std::string from_base64(const std::string& text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = c - 'A';
    } else if (c >= 'a' && c <= 'z') {
      digit = c - 'a' + 26;
    } else if (c >= '0' && c <= '9') {
      digit = c - '0' + 52;
    } else if (c == '+' || c == '/') {
      digit = c == '+' ? 62 : 63;
    } else {
      break;
    }
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

text::TokenizerSpec spec_of(const nlohmann::json& model) {
  text::TokenizerSpec spec;
  spec.family = "t5";
  for (const auto& piece : model.at("pieces")) {
    const std::string text = piece.at(0);
    if (text == "<unk>") spec.unk = static_cast<Token>(spec.tokens.size());
    if (text == "</s>") spec.eos = static_cast<Token>(spec.tokens.size());
    spec.tokens.push_back(text);
    spec.scores.push_back(piece.at(1));
    spec.kinds.push_back(static_cast<text::TokenKind>(piece.at(2).get<int>()));
  }
  spec.charsmap = from_base64(model.at("charsmap"));
  spec.add_space_prefix = model.at("space_prefix").get<bool>();
  spec.remove_extra_whitespaces = model.at("merge_spaces").get<bool>();
  return spec;
}

nlohmann::json goldens() {
  const char* other = std::getenv("LLMINFER_UNIGRAM_GOLDENS");
  return nlohmann::json::parse(read_text(other ? other : std::string(LLMINFER_TEXT_GOLDENS) + "/unigram.json"));
}

}  // namespace

TEST_CASE("unigram ids equal sentencepiece's") {
  const auto file = goldens();
  const auto texts = file.at("texts").get<std::vector<std::string>>();
  REQUIRE(file.at("models").size() == 3);
  for (const auto& model : file.at("models")) {
    const text::Tokenizer tokenizer(spec_of(model));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(texts[i]);
      CHECK(tokenizer.encode(texts[i], bare) == model.at("ids").at(i).get<std::vector<Token>>());
    }
  }
}

TEST_CASE("unigram text is stable once normalized, its ranges ascend") {
  const auto file = goldens();
  for (const auto& model : file.at("models")) {
    const text::Tokenizer tokenizer(spec_of(model));
    std::mt19937 random(2);
    const std::vector<std::string> parts{
        "the",       " ",     "  ", "banana",  "\xEF\xAC\x81",     "\xE3\x80\x80", "\xE2\x80\x8B",
        "\n",        "aaa",   "x",  "<think>", "\xF0\x9F\x9A\x80", "\xFF",         "\xE2\x82",
        "e\xCC\x81", "<ctl>", "."};
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (std::size_t i = random() % 12; i > 0; --i) text += parts[random() % parts.size()];
      INFO(text);
      const Encoding encoding = tokenizer.encode_ranges(text, bare);
      std::size_t before = 0;
      bool known = true;
      for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
        REQUIRE(encoding.ranges[i].begin >= before);
        REQUIRE(encoding.ranges[i].end >= encoding.ranges[i].begin);
        before = encoding.ranges[i].begin;
        known = known && encoding.tokens[i] != tokenizer.vocabulary().unk();
      }
      REQUIRE(before <= text.size());
      const std::string decoded = tokenizer.decode(encoding.tokens);
      if (known) REQUIRE(tokenizer.decode(tokenizer.encode(decoded, bare)) == decoded);
    }
  }
}

TEST_CASE("broken charsmaps are errors or harmless") {
  const auto file = goldens();
  text::TokenizerSpec good = spec_of(file.at("models").at(0));
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{5}, good.charsmap.size() - 1}) {
    text::TokenizerSpec spec = good;
    spec.charsmap.resize(size);
    CHECK_THROWS_AS(text::Tokenizer(std::move(spec)), Exception);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    text::TokenizerSpec spec = good;
    for (int i = 0; i < 50; ++i) spec.charsmap[4 + random() % (spec.charsmap.size() - 5)] = static_cast<char>(random());
    const text::Tokenizer tokenizer(std::move(spec));
    (void)tokenizer.encode("\xEF\xAC\x81ne caf\xC3\xA9 \xE3\x80\x80 \xEF\xBD\xB6\xEF\xBE\x9E", bare);
  }
}

}  // namespace llminfer::test
