#include "text/tokenizer.h"

#include <algorithm>

#include "core/fail.h"

namespace llminfer::text {
namespace {

ByteTrie special_trie(const Vocabulary& vocabulary) {
  ByteTrie::Entries entries(vocabulary.spec().memory);
  // The unigram encoder looks for user-defined tokens itself, since they are part of its normalized text.
  const bool with_given = vocabulary.family() != Family::unigram;
  for (Token id = 0; id < vocabulary.size(); ++id) {
    const bool special = vocabulary.is_control(id) || (with_given && vocabulary.kind(id) == TokenKind::user_defined);
    if (special && !vocabulary.text(id).empty()) entries.emplace_back(vocabulary.text(id), id);
  }
  return ByteTrie(std::move(entries));
}

std::unique_ptr<Encoder> make_encoder(const Vocabulary& vocabulary) {
  switch (vocabulary.family()) {
    case Family::byte_bpe:
      return make_byte_bpe(vocabulary);
    case Family::sentencepiece_bpe:
      return make_sentencepiece_bpe(vocabulary);
    case Family::unigram:
      return make_unigram(vocabulary);
    case Family::wordpiece:
      return make_wordpiece(vocabulary);
  }
  core::fail(ErrorCode::unsupported_type, "tokenizer family \"{}\" is not known", vocabulary.spec().family);
}

Token needed(std::optional<Token> id, std::string_view name) {
  if (!id) core::fail(ErrorCode::invalid_argument, "{}: the model has no such token", name);
  return *id;
}

bool wanted(AddToken option, bool automatic) noexcept {
  return option == AddToken::yes || (option == AddToken::automatic && automatic);
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec)
    : vocabulary_(std::move(spec)), specials_(special_trie(vocabulary_)), encoder_(make_encoder(vocabulary_)) {}

Tokenizer::~Tokenizer() = default;

std::vector<Token> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Token> tokens;
  TokenSink sink{tokens};
  const ByteRange whole{0, text.size()};
  encode_into(text, {&whole, options.special == SpecialText::none ? 0u : 1u}, options, sink);
  return tokens;
}

Encoding Tokenizer::encode_ranges(std::string_view text, const EncodeOptions& options) const {
  Encoding encoding;
  TokenSink sink{encoding.tokens, &encoding.ranges};
  const ByteRange whole{0, text.size()};
  encode_into(text, {&whole, options.special == SpecialText::none ? 0u : 1u}, options, sink);
  return encoding;
}

std::vector<Token> Tokenizer::encode_spans(std::span<const TextSpan> spans, const EncodeOptions& options) const {
  std::string text;
  std::vector<ByteRange> markup;
  for (const TextSpan& span : spans) {
    const std::size_t begin = text.size();
    text.append(span.text);
    if (!span.markup || span.text.empty()) continue;
    if (!markup.empty() && markup.back().end == begin) {
      markup.back().end = text.size();
    } else {
      markup.push_back({begin, text.size()});
    }
  }
  std::vector<Token> tokens;
  TokenSink sink{tokens};
  encode_into(text, markup, options, sink);
  return tokens;
}

void Tokenizer::encode_into(std::string_view text, std::span<const ByteRange> markup, const EncodeOptions& options,
                            TokenSink& sink) const {
  if (text.size() >= (std::size_t{1} << 31)) {
    core::fail(ErrorCode::invalid_argument, "text: {} bytes are too many", text.size());
  }
  encode_body(text, markup, sink);
  if (wanted(options.bos, vocabulary_.adds_bos())) {
    const Token bos = needed(vocabulary_.bos(), "bos");
    if (sink.tokens.empty() || sink.tokens.front() != bos) {
      sink.tokens.insert(sink.tokens.begin(), bos);
      if (sink.ranges) sink.ranges->insert(sink.ranges->begin(), ByteRange{0, 0});
    }
  }
  if (wanted(options.eos, vocabulary_.adds_closing())) {
    const Token closing = needed(vocabulary_.closing(), "eos");
    if (sink.tokens.empty() || sink.tokens.back() != closing) sink.add(closing, text.size(), text.size());
  }
}

// The longest control or user-defined token at `at`, control tokens only if they end within the markup.
Token Tokenizer::find_special(std::string_view text, std::size_t at, std::size_t markup_end,
                              std::size_t& end) const noexcept {
  Token found = StringMap::none;
  std::uint32_t node = ByteTrie::root;
  for (std::size_t i = at; i < text.size();) {
    node = specials_.step(node, static_cast<std::uint8_t>(text[i++]));
    if (node == ByteTrie::root) break;
    const Token id = specials_.value(node);
    if (id == ByteTrie::none) continue;
    if (vocabulary_.kind(id) == TokenKind::user_defined || i <= markup_end) {
      found = id;
      end = i;
    }
  }
  return found;
}

void Tokenizer::encode_body(std::string_view text, std::span<const ByteRange> markup, TokenSink& sink) const {
  const std::unique_ptr<EncodeSession> session = encoder_->start(text.size());
  std::size_t begin = 0, next_markup = 0;
  bool after_special = true;
  for (std::size_t at = 0; at < text.size();) {
    while (next_markup < markup.size() && markup[next_markup].end <= at) ++next_markup;
    const bool inside = next_markup < markup.size() && markup[next_markup].begin <= at;
    std::size_t end = at;
    const Token special = find_special(text, at, inside ? markup[next_markup].end : 0, end);
    if (special == StringMap::none) {
      ++at;
      continue;
    }
    if (begin < at) session->encode(text.substr(begin, at - begin), begin, after_special, sink);
    sink.add(special, at, end);
    after_special = true;
    if (vocabulary_.strips_after(special)) end = text.find_first_not_of(" \t\n\v\f\r", end);
    begin = at = std::min(end, text.size());
  }
  if (begin < text.size()) session->encode(text.substr(begin), begin, after_special, sink);
}

std::string Tokenizer::decode(std::span<const Token> tokens, const DecodeOptions& options) const {
  std::string text;
  // Undoes the space that encode puts in front of the text and after special tokens.
  bool strip_space = vocabulary_.adds_space_prefix() || vocabulary_.family() == Family::wordpiece;
  const bool strip_again = vocabulary_.family() == Family::sentencepiece_bpe && vocabulary_.adds_space_prefix();
  for (const Token id : tokens) {
    vocabulary_.check(id);
    const TokenKind kind = vocabulary_.kind(id);
    const bool control = vocabulary_.is_control(id);
    if (control || kind == TokenKind::user_defined) {
      if (!control || options.special) text.append(vocabulary_.bytes(id));
      strip_space = strip_again;
      continue;
    }
    std::string_view bytes = vocabulary_.bytes(id);
    if (strip_space && !bytes.empty() && bytes.front() == ' ') bytes.remove_prefix(1);
    strip_space = false;
    text.append(bytes);
  }
  return text;
}

}  // namespace llminfer::text
