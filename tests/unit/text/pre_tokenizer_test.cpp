#include "text/pre_tokenizer.h"

#include <random>
#include <set>

#include "catch.h"
#include "text/splitter.h"
#include "text/utf8.h"

namespace llminfer::test {
namespace {

using text::Splitter;

std::vector<std::string> pieces(const Splitter& splitter, const std::string& text) {
  Splitter::Scratch scratch(splitter);
  std::vector<std::size_t> ends;
  splitter.split_bytes(text, scratch, ends);
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    REQUIRE(end > begin);
    result.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  REQUIRE(begin == text.size());
  return result;
}

std::vector<std::string> pieces(const char* name, const std::string& text) {
  const text::PreRules* rules = text::find_pre_rules(name);
  REQUIRE(rules);
  return pieces(Splitter(rules->passes), text);
}

using Pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("names are known once") {
  std::set<std::string> names;
  for (const text::PreRules& rules : text::all_pre_rules()) {
    for (const std::string_view name : rules.names) CHECK(names.emplace(name).second);
  }
  for (const char* name :
       {"gpt-2",       "llama-bpe",  "smaug-bpe", "qwen2",   "qwen35",      "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon",     "starcoder", "refact",  "command-r",   "mpt",          "olmo",
        "dbrx",        "smollm",     "tekken",    "gpt-4o",  "chatglm-bpe", "bloom",        "gpt3-finnish",
        "exaone",      "minerva-7b", "superbpe",  "kimi-k2", "hunyuan",     "seed-coder",   "bailingmoe",
        "llama4",      "default",    ""}) {
    CHECK(names.count(name) == 1);
  }
  CHECK_FALSE(text::find_pre_rules("unheard-of"));
}

TEST_CASE("words") {
  CHECK(pieces("gpt-2", "Hello, y'all!  12\n x") ==
        Pieces{"Hello", ",", " y", "'", "all", "!", " ", " 12", "\n", " x"});
  CHECK(pieces("gpt-2", "it's") == Pieces{"it", "'s"});
  CHECK(pieces("gpt-2", "IT'S") == Pieces{"IT", "'", "S"});
  CHECK(pieces("llama-bpe", "IT'S 12345\r\n\n x") == Pieces{"IT", "'S", " ", "123", "45", "\r\n\n", " x"});
  CHECK(pieces("qwen2", "a12 b") == Pieces{"a", "1", "2", " b"});
  CHECK(pieces("starcoder", "a 12") == Pieces{"a", " ", "1", "2"});
  CHECK(pieces("tekken", "fooBar") == Pieces{"foo", "Bar"});
  CHECK(pieces("gpt-4o", "fooBAR's") == Pieces{"foo", "BAR's"});
  CHECK(pieces("gpt-2", "a\xE2\x80\x83\xE2\x80\x83z") == Pieces{"a", "\xE2\x80\x83", "\xE2\x80\x83", "z"});
  CHECK(pieces("gpt-2", "a\xE1\xA0\x8Ez") == Pieces{"a", "\xE1\xA0\x8E", "z"});  // U+180E is no white space
}

TEST_CASE("digits in threes") {
  CHECK(pieces("superbpe", "x1234567y") == Pieces{"x", "1", "234", "567", "y"});
  CHECK(pieces("superbpe", "123") == Pieces{"123"});
  CHECK(pieces("superbpe",
               "\xD9\xA1"
               "1234") == Pieces{"\xD9\xA1"
                                 "1",
                                 "234"});
  CHECK(pieces("afmoe", "1234567") == Pieces{"1", "234", "567"});
  CHECK(pieces("afmoe", "12") == Pieces{"12"});
}

TEST_CASE("bytes that are no characters count as U+FFFD") {
  CHECK(pieces("gpt-2", "a\xFF\xFE z") == Pieces{"a", "\xFF\xFE", " z"});
  CHECK(pieces("gpt-2", "\xF0\x9F\x98") == Pieces{"\xF0\x9F\x98"});
}

TEST_CASE("machine code and interpreter cut alike") {
  static constexpr std::uint32_t letters[] = {
      'a',     'b',    'Z',    's',    'S',    't',    'l',   'v',    'e',    'r',  '\'', ' ',     ' ',
      '\n',    '\r',   '\t',   '1',    '2',    '(',    '.',   '/',    '$',    0xE9, 0xC9, 0x1C5,   0x300,
      0x301,   0x4E2D, 0x6587, 0x3042, 0xAC00, 0x1100, 0x627, 0x661,  0x2003, 0xA0, 0x85, 0x180E,  0x200D,
      0x1F600, 0xFE0F, 0x3002, 0x2026, 0x0915, 0x093E, 0x17F, 0x2160, 0xFF11, 0xAD, 0x0,  0x10FFFF};
  std::mt19937 random(9);
  for (const text::PreRules& rules : text::all_pre_rules()) {
    INFO(rules.names[0]);
    const Splitter fast(rules.passes), slow(rules.passes, false);
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (std::size_t i = random() % 40; i > 0; --i) text::utf8_append(text, letters[random() % std::size(letters)]);
      if (round % 5 == 0) text += "\xE4\xB8";
      REQUIRE(pieces(fast, text) == pieces(slow, text));
    }
  }
}

}  // namespace llminfer::test
