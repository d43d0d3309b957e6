// Any vocabulary and any text: an Exception while the vocabulary is built, or tokens that keep their promises.
#include <cstddef>
#include <cstdint>
#include <llminfer/error.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/piece_stream.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace llminfer;

// Takes the input apart; past its end come zeros and empty strings.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view string(std::size_t most) {
    const std::size_t size = std::min({std::size_t{byte()}, most, rest_.size()});
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

void add_token(text::TokenizerSpec& spec, std::string_view token, text::TokenKind kind, float score) {
  spec.tokens.push_back(token);
  spec.kinds.push_back(kind);
  spec.scores.push_back(score);
}

// All 256 bytes in the alphabet, then the input's own tokens and merges.
void add_bytes(text::TokenizerSpec& spec) {
  for (const std::uint16_t code : text::byte_alphabet()) {
    std::string letter;
    text::utf8_append(letter, code);
    add_token(spec, letter, text::TokenKind::normal, 0);
  }
}

void add_byte_tokens(text::TokenizerSpec& spec) {
  constexpr const char* digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char token[] = {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
    add_token(spec, {token, sizeof token}, text::TokenKind::byte, 0);
  }
}

text::TokenizerSpec spec_of(Input& input) {
  constexpr std::string_view families[] = {"gpt2", "llama", "t5", "bert", "gemma4", "gpt2"};
  text::TokenizerSpec spec;
  const std::uint8_t flags = input.byte();
  spec.family = families[input.byte() % std::size(families)];
  const auto rules = text::all_pre_rules();
  spec.pre = rules[input.byte() % rules.size()].names[0];
  if (spec.family == "gpt2") {
    add_bytes(spec);
  } else if ((flags & 1) != 0) {
    add_byte_tokens(spec);
  }
  for (int count = input.byte() % 32; count > 0; --count) {
    const auto kind = static_cast<text::TokenKind>(1 + input.byte() % 6);
    add_token(spec, input.string(24), kind, -static_cast<float>(input.byte()));
  }
  for (int count = input.byte() % 32; count > 0; --count) spec.merges.push_back(input.string(16));
  if ((flags & 2) != 0) spec.charsmap = input.string(255);
  if ((flags & 4) != 0) spec.bos = static_cast<Token>(input.byte()) - 8;
  if ((flags & 8) != 0) spec.unk = static_cast<Token>(input.byte());
  if ((flags & 16) != 0) spec.add_space_prefix = (flags & 32) != 0;
  if ((flags & 64) != 0) spec.remove_extra_whitespaces = (flags & 128) != 0;
  return spec;
}

void check(bool held) {
  if (!held) __builtin_trap();
}

void check_encoding(const text::Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  const Encoding encoding = tokenizer.encode_ranges(text, options);
  check(encoding.tokens.size() == encoding.ranges.size());
  check(encoding.tokens == tokenizer.encode(text, options));
  for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
    const Token id = encoding.tokens[i];
    check(tokenizer.vocabulary().contains(id));
    check(encoding.ranges[i].begin <= encoding.ranges[i].end && encoding.ranges[i].end <= text.size());
    const bool control = tokenizer.vocabulary().kind(id) == text::TokenKind::control;
    check(!control || options.special == SpecialText::parse || id == tokenizer.vocabulary().bos() ||
          id == tokenizer.vocabulary().closing() || id == tokenizer.vocabulary().unk());
  }
  const std::string decoded = tokenizer.decode(encoding.tokens);
  if (tokenizer.vocabulary().spec().family == "gpt2" && options.bos == AddToken::no &&
      !tokenizer.vocabulary().pre().raw_utf8) {
    check(decoded == text);
  }
}

void check_stream(std::string_view text, std::vector<std::string> stops, std::size_t step) {
  text::PieceStream stream(std::make_shared<const text::StopStrings>(stops), step);
  std::string out;
  bool stopped = false;
  for (std::size_t at = 0; at < text.size() && !stopped; at += step) {
    stopped = stream.feed(text.substr(at, step)).has_value();
    out += stream.bytes();
  }
  if (!stopped) {
    stream.finish();
    out += stream.bytes();
    check(out == text);
  }
  for (const std::string& stop : stops) check(out.find(stop) == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  try {
    std::vector<std::string> stops;
    for (int count = input.byte() % 4; count > 0; --count) stops.emplace_back(input.string(8));
    const std::size_t step = 1 + input.byte() % 8;
    const text::Tokenizer tokenizer(spec_of(input));
    check_encoding(tokenizer, input.rest(), {SpecialText::none, AddToken::no, AddToken::no});
    check_encoding(tokenizer, input.rest(), {SpecialText::parse, AddToken::no, AddToken::no});
    check_encoding(tokenizer, input.rest(), {});
    check_stream(input.rest(), std::move(stops), step);
  } catch (const Exception&) {
    return 0;
  }
  return 0;
}
