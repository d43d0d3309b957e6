// Known traps, with their values.
#include <limits>

#include "catch.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"
#include "vocab_files.h"

namespace llminfer::test {
namespace {

using Tokens = std::vector<Token>;

// A byte-level vocabulary of the 256 bytes and a few more tokens.
text::TokenizerSpec small_spec() {
  text::TokenizerSpec spec;
  spec.family = "gpt2";
  spec.pre = "gpt-2";
  const auto add = [&](std::string_view text, text::TokenKind kind) {
    spec.tokens.push_back(text);
    spec.kinds.push_back(kind);
  };
  const auto alphabet = text::byte_alphabet();
  for (const std::uint16_t code : alphabet) {
    std::string letter;
    text::utf8_append(letter, code);
    add(letter, text::TokenKind::normal);
  }
  add("<s>", text::TokenKind::control);              // 256
  add("<think>", text::TokenKind::user_defined);     // 257
  add("<|im_end|>", text::TokenKind::user_defined);  // 258: control whatever the file says
  add("he", text::TokenKind::normal);                // 259
  add("<|eot_id|>", text::TokenKind::control);       // 260
  spec.merges.push_back("h e");
  spec.bos = 256;
  spec.eos = 258;
  return spec;
}

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Exception& exception) {
    return exception.error();
  }
  FAIL("no error");
  return {};
}

}  // namespace

TEST_CASE("Llama 2") {
  const auto tokenizer = open_vocab("llama-spm");
  if (!tokenizer) return;
  CHECK(tokenizer->encode("Hello", bare) == Tokens{15043});
  CHECK(tokenizer->encode(" Hello", bare) == Tokens{29871, 15043});
  CHECK(tokenizer->encode("   Hello", bare) == Tokens{1678, 15043});
  CHECK(tokenizer->encode("The train is moving very fast!") == Tokens{1, 450, 7945, 338, 8401, 1407, 5172, 29991});
  CHECK(tokenizer->encode("", bare).empty());
  CHECK(tokenizer->encode("") == Tokens{1});
  CHECK(tokenizer->encode("<s>Hello", {SpecialText::parse}) == Tokens{1, 15043});  // one BOS, not two
  CHECK(tokenizer->encode("<s>", bare).size() > 1);                                // words of a user
}

TEST_CASE("newlines") {
  for (const char* name : {"llama-bpe", "qwen2"}) {
    const auto tokenizer = open_vocab(name);
    if (!tokenizer) return;
    CHECK(tokenizer->encode("\n", bare) == Tokens{198});
  }
}

TEST_CASE("a user-defined token is one id and never split") {
  const text::Tokenizer tokenizer(small_spec());
  CHECK(tokenizer.encode("<think>", bare) == Tokens{257});
  CHECK(tokenizer.encode("a<think>he", bare) == Tokens{'a', 257, 259});
  CHECK(tokenizer.encode("a<think>he", bare_parse) == Tokens{'a', 257, 259});
}

TEST_CASE("control tokens come from markup alone") {
  const text::Tokenizer tokenizer(small_spec());
  CHECK(tokenizer.encode("<|eot_id|>", bare).size() == 10);
  CHECK(tokenizer.encode("<|im_end|>", bare).size() == 10);
  CHECK(tokenizer.encode("<|eot_id|>", bare_parse) == Tokens{260});
  CHECK(tokenizer.vocabulary().stop_tokens().size() == 2);
  const std::vector<TextSpan> spans{{"<s>h", true}, {"e<|eot_id|><think>", false}, {"<|eot_id|>", true}};
  Tokens expected{256, 259};
  for (const char c : std::string("<|eot_id|>")) expected.push_back(c);
  expected.push_back(257);
  expected.push_back(260);
  CHECK(tokenizer.encode_spans(spans, {SpecialText::template_text, AddToken::yes, AddToken::no}) == expected);
  // Neither does a token appear where content completes what markup began.
  const std::vector<TextSpan> torn{{"<|eot", true}, {"_id|>", false}};
  CHECK(tokenizer.encode_spans(torn, bare).size() == 10);
  const std::vector<TextSpan> halves{{"<|eot", true}, {"_id|>", true}};
  CHECK(tokenizer.encode_spans(halves, bare) == Tokens{260});
}

TEST_CASE("BOS exactly once") {
  const text::Tokenizer tokenizer(small_spec());
  const EncodeOptions with_bos{SpecialText::parse, AddToken::yes, AddToken::no};
  CHECK(tokenizer.encode("<s>a", with_bos) == Tokens{256, 'a'});
  CHECK(tokenizer.encode("a", with_bos) == Tokens{256, 'a'});
  CHECK(tokenizer.encode("a", {SpecialText::none, AddToken::automatic, AddToken::automatic}) == Tokens{'a'});
  CHECK(tokenizer.encode("a", {SpecialText::none, AddToken::no, AddToken::yes}) == Tokens{'a', 258});
}

TEST_CASE("a token of one NUL byte loads and comes back") {
  const text::Tokenizer tokenizer(small_spec());
  const std::string text("a\0b", 3);
  CHECK(tokenizer.encode(text, bare) == Tokens{'a', 0, 'b'});
  CHECK(tokenizer.decode(Tokens{'a', 0, 'b'}) == text);
  text::TokenizerSpec spec = small_spec();
  spec.tokens.push_back(std::string_view("\0", 1));
  spec.kinds.push_back(text::TokenKind::user_defined);
  const text::Tokenizer literal(std::move(spec));
  CHECK(literal.encode(text, bare) == Tokens{'a', 261, 'b'});
  CHECK(literal.decode(Tokens{261}) == std::string(1, '\0'));
}

TEST_CASE("ids outside are errors") {
  const text::Tokenizer tokenizer(small_spec());
  for (const Token id : {-1, 261, std::numeric_limits<Token>::max(), std::numeric_limits<Token>::min()}) {
    CHECK(error_of([&] { (void)tokenizer.decode(Tokens{id}); }).code == ErrorCode::invalid_argument);
    CHECK_FALSE(tokenizer.vocabulary().is_control(id));
  }
}

TEST_CASE("what a file says wrong is named") {
  text::TokenizerSpec spec = small_spec();
  spec.family = "mystery";
  Error error = error_of([&] { text::Tokenizer{spec}; });
  CHECK(error.code == ErrorCode::unsupported_type);
  CHECK(error.message.find("mystery") != std::string::npos);
  spec = small_spec();
  spec.pre = "unheard-of";
  error = error_of([&] { text::Tokenizer{spec}; });
  CHECK(error.code == ErrorCode::unsupported_type);
  CHECK(error.message.find("unheard-of") != std::string::npos);
  spec = small_spec();
  spec.eot = 261;
  error = error_of([&] { text::Tokenizer{spec}; });
  CHECK(error.code == ErrorCode::corrupt);
  CHECK(error.message.find("eot") != std::string::npos);
  CHECK(error.message.find("261") != std::string::npos);
  spec = small_spec();
  spec.scores.resize(3);
  CHECK(error_of([&] { text::Tokenizer{spec}; }).code == ErrorCode::corrupt);
  spec = small_spec();
  spec.merges.push_back("nospace");
  CHECK(error_of([&] { text::Tokenizer{spec}; }).code == ErrorCode::corrupt);
  CHECK(error_of([&] { text::Tokenizer{text::TokenizerSpec{}}; }).code == ErrorCode::unsupported_type);
}

TEST_CASE("ranges tell where tokens came from") {
  const text::Tokenizer tokenizer(small_spec());
  const Encoding encoding = tokenizer.encode_ranges("xhe<think>\xC3\xA9", {SpecialText::none, AddToken::yes});
  CHECK(encoding.tokens == Tokens{256, 'x', 259, 257, 0xC3, 0xA9});
  const std::vector<std::pair<std::size_t, std::size_t>> expected{{0, 0}, {0, 1}, {1, 3}, {3, 10}, {10, 11}, {11, 12}};
  REQUIRE(encoding.ranges.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(encoding.ranges[i].begin == expected[i].first);
    CHECK(encoding.ranges[i].end == expected[i].second);
  }
}

TEST_CASE("ranges of SentencePiece leave the space in front out") {
  const auto tokenizer = open_vocab("llama-spm");
  if (!tokenizer) return;
  const std::string text = "Hello world \xF0\x9F\x98\x80";
  const Encoding encoding = tokenizer->encode_ranges(text, bare);
  std::string covered;
  for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
    covered += text.substr(encoding.ranges[i].begin, encoding.ranges[i].end - encoding.ranges[i].begin);
  }
  CHECK(covered == text);
  CHECK(encoding.ranges[0].end == 5);
}

}  // namespace llminfer::test
