// encode, then decode: random Unicode, random bytes, hostile repetitions.
#include <random>

#include "catch.h"
#include "support/cpu_time.h"
#include "text/utf8.h"
#include "vocab_files.h"

namespace llminfer::test {
namespace {

std::string random_unicode(std::mt19937& random, std::size_t characters) {
  static constexpr std::uint32_t ranges[][2] = {
      {0x20, 0x7E},     {0x09, 0x0D},       {0xA0, 0x24F},      {0x300, 0x36F},   {0x370, 0x5FF},    {0x600, 0x77F},
      {0x900, 0xDFF},   {0x1100, 0x11FF},   {0x2000, 0x206F},   {0x3000, 0x30FF}, {0x4E00, 0x9FFF},  {0xAC00, 0xD7A3},
      {0xFE00, 0xFFFF}, {0x1F300, 0x1FAFF}, {0x20000, 0x2FA1F}, {0x0, 0xD7FF},    {0xE000, 0x10FFFF}};
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    const auto& range = ranges[random() % 3 == 0 ? random() % std::size(ranges) : 0];
    const std::uint32_t code = range[0] + random() % (range[1] - range[0] + 1);
    if (code != 0x2581) text::utf8_append(text, code);  // SentencePiece's space
  }
  return text;
}

std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Some byte-level vocabularies have no token for bytes that their training text did not have: those bytes are lost.
std::string expressible(const text::Tokenizer& tokenizer, const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (tokenizer.vocabulary().byte_token(static_cast<std::uint8_t>(c)) >= 0) kept += c;
  }
  return kept;
}

void check_ranges(const text::Tokenizer& tokenizer, const std::string& text, const Encoding& encoding) {
  REQUIRE(encoding.ranges.size() == encoding.tokens.size());
  std::size_t before = 0;
  for (std::size_t i = 0; i < encoding.ranges.size(); ++i) {
    const ByteRange range = encoding.ranges[i];
    REQUIRE(range.begin <= range.end);
    REQUIRE(range.end <= text.size());
    if (tokenizer.vocabulary().family() == text::Family::wordpiece) continue;
    REQUIRE(range.begin == before);
    before = range.end;
  }
}

}  // namespace

TEST_CASE("random texts and bytes come back") {
  for (const char* name :
       {"gpt-2", "llama-bpe", "qwen2", "starcoder", "falcon", "deepseek-coder", "llama-spm", "phi-3"}) {
    const auto tokenizer = open_vocab(name);
    if (!tokenizer) return;
    INFO(name);
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
      const std::string text =
          round % 3 == 2 ? random_bytes(random, random() % 60) : random_unicode(random, random() % 60);
      const std::string expected = expressible(*tokenizer, text);
      const Encoding encoding = tokenizer->encode_ranges(text, bare);
      REQUIRE(tokenizer->decode(encoding.tokens) == expected);
      REQUIRE(tokenizer->encode(text, bare) == encoding.tokens);
      if (expected == text) check_ranges(*tokenizer, text, encoding);
      const std::string long_text = text + text + text;
      REQUIRE(tokenizer->decode(tokenizer->encode(long_text, bare)) == expressible(*tokenizer, long_text));
    }
  }
}

TEST_CASE("what the cache of words remembers is what merging gives") {
  for (const char* name : {"gpt-2", "llama-bpe", "llama-spm"}) {
    const auto tokenizer = open_vocab(name);
    if (!tokenizer) return;
    std::mt19937 random(5);
    std::vector<std::string> words;
    for (int i = 0; i < 200; ++i) words.push_back(random_unicode(random, 1 + random() % 8).append("\n"));
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      const std::string& word = words[random() % words.size()];
      text += word;
    }
    // Pieces below the size at which the cache is used, cut at newlines, after which no word goes on into the next
    // line.
    const std::vector<Token> tokens = tokenizer->encode(text, bare);
    CHECK(tokenizer->decode(tokens) == text);
    const Encoding encoding = tokenizer->encode_ranges(text, bare);
    CHECK(encoding.tokens == tokens);
    check_ranges(*tokenizer, text, encoding);
  }
}

TEST_CASE("BERT's text is stable once normalized") {
  const auto tokenizer = open_vocab("bert-bge");
  if (!tokenizer) return;
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::string text = round % 3 == 2 ? random_bytes(random, 40) : random_unicode(random, 40);
    const Encoding encoding = tokenizer->encode_ranges(text, bare);
    check_ranges(*tokenizer, text, encoding);
    std::vector<Token> known;
    for (const Token id : encoding.tokens) {
      if (!tokenizer->vocabulary().is_control(id)) known.push_back(id);
    }
    REQUIRE(tokenizer->encode(tokenizer->decode(known), bare) == known);
  }
}

TEST_CASE("hostile repetitions take about linear time") {
  for (const char* name : {"gpt-2", "llama-bpe", "deepseek-coder", "llama-spm", "bert-bge"}) {
    const auto tokenizer = open_vocab(name);
    if (!tokenizer) return;
    INFO(name);
    for (const char* unit : {"a", "A", " ", "\n", "1", "!", "\xE4\xB8\xAD", "\xCC\x81", "ab", "\t ", "\xFF"}) {
      INFO(unit);
      std::string text;
      while (text.size() < 100000) text += unit;
      const double start = test::cpu_seconds();
      const std::vector<Token> tokens = tokenizer->encode(text, bare);
      CHECK(test::cpu_seconds() - start < 5.0);  // quadratic time would be minutes
      if (tokenizer->vocabulary().family() == text::Family::wordpiece) continue;
      CHECK((tokenizer->decode(tokens) == expressible(*tokenizer, text)));
    }
  }
}

}  // namespace llminfer::test
