#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fail.h"
#include "text/byte_alphabet.h"
#include "text/spaces.h"

namespace llminfer::text {
namespace {

// Bounds the time that a hostile vocabulary can make a position of a text cost. Real tokens stay below 600.
constexpr std::size_t longest_token = 4096;

// Spellings by which published models end a turn, an answer or a text.
constexpr std::array<std::string_view, 25> end_spellings{"<|eot_id|>",
                                                         "<|im_end|>",
                                                         "<|end|>",
                                                         "<|return|>",
                                                         "<|call|>",
                                                         "<|calls|>",
                                                         "<|flush|>",
                                                         "<end_of_turn>",
                                                         "<|endoftext|>",
                                                         "</s>",
                                                         "<|eom_id|>",
                                                         "<EOT>",
                                                         "_<EOT>",
                                                         "[EOT]",
                                                         "[EOS]",
                                                         "<|end_of_text|>",
                                                         "<end_of_utterance>",
                                                         "<eos>",
                                                         "<turn|>",
                                                         "<|tool_response>",
                                                         "<\xEF\xBD\x9C"
                                                         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
                                                         "[e~[",
                                                         "<|eot|>",
                                                         "<|eom|>",
                                                         "<|endofturn|>"};

// Spellings that steer fill-in-the-middle. With the ones above, they are control tokens even in files that call them
// user-defined: a user's words must not be able to inject them.
constexpr std::array<std::string_view, 14> fill_in_spellings{
    "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>",    "<fim-prefix>",
    "<fim-suffix>",   "<fim-middle>",   "<fim_prefix>",   "<fim_suffix>",   "<fim_middle>",
    "<fim_pad>",      "<|repo_name|>",  "<|file_sep|>",   "<|endofprompt|>"};

bool contains(std::span<const std::string_view> list, std::string_view text) noexcept {
  return std::find(list.begin(), list.end(), text) != list.end();
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that "<0x0A>" spells, or -1.
int spelled_byte(std::string_view text) noexcept {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace

Vocabulary::Vocabulary(TokenizerSpec spec)
    : spec_(std::move(spec)), bytes_(spec_.memory), by_text_(spec_.tokens.size(), spec_.memory) {
  resolve_family();
  check_arrays();
  kinds_ =
      spec_.kinds.empty() ? core::Vector<TokenKind>(spec_.tokens.size(), TokenKind::normal, spec_.memory) : spec_.kinds;
  mark_control_spellings();
  fill_default_ids();
  check_ids();
  resolve_bytes();
  resolve_policies();
  collect_stop_tokens();
}

void Vocabulary::check(Token id) const {
  if (!contains(id)) core::fail(ErrorCode::invalid_argument, "token {} is outside the vocabulary of {}", id, size());
}

bool Vocabulary::strips_after(Token id) const noexcept {
  if (!spec_.strip_after_special) return false;
  const std::string_view spelling = text(id);
  return spelling != "<unk>" && spelling != "<s>" && spelling != "<|endoftext|>";
}

void Vocabulary::resolve_family() {
  const std::string& name = spec_.family;
  if (name == "llama") {
    family_ = Family::sentencepiece_bpe;
  } else if (name == "t5") {
    family_ = Family::unigram;
  } else if (name == "bert") {
    family_ = Family::wordpiece;
  } else if (name == "gpt2" || name == "gemma4") {
    family_ = Family::byte_bpe;
  } else {
    core::fail(ErrorCode::unsupported_type, "tokenizer family \"{}\" is not known", name);
  }
  pre_ = find_pre_rules("");
  if (family_ != Family::byte_bpe) return;
  pre_ = find_pre_rules(name == "gemma4" ? "gemma4" : std::string_view(spec_.pre));
  if (!pre_) core::fail(ErrorCode::unsupported_type, "pre-tokenizer \"{}\" is not known", spec_.pre);
}

void Vocabulary::check_arrays() const {
  const std::size_t count = spec_.tokens.size();
  if (count == 0) core::fail(ErrorCode::corrupt, "tokens: the vocabulary is empty");
  if (count > (1u << 28)) core::fail(ErrorCode::corrupt, "tokens: {} are too many", count);
  if (!spec_.scores.empty() && spec_.scores.size() != count) {
    core::fail(ErrorCode::corrupt, "scores: {} for {} tokens", spec_.scores.size(), count);
  }
  if (!spec_.kinds.empty() && spec_.kinds.size() != count) {
    core::fail(ErrorCode::corrupt, "token types: {} for {} tokens", spec_.kinds.size(), count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (spec_.tokens[i].size() > longest_token) {
      core::fail(ErrorCode::corrupt, "tokens: entry {} has {} bytes, more than {}", i, spec_.tokens[i].size(),
                 longest_token);
    }
  }
  for (std::size_t i = 0; i < spec_.scores.size(); ++i) {
    if (std::isnan(spec_.scores[i])) core::fail(ErrorCode::corrupt, "scores: that of token {} is not a number", i);
  }
}

// What converters leave out because the family always had it there.
void Vocabulary::fill_default_ids() {
  const auto fill = [&](std::optional<Token>& id, Token usual) {
    if (!id && contains(usual)) id = usual;
  };
  if (family_ == Family::sentencepiece_bpe) {
    fill(spec_.bos, 1);
    fill(spec_.eos, 2);
    fill(spec_.unk, 0);
  } else if (family_ == Family::wordpiece) {
    fill(spec_.bos, 101);
    fill(spec_.sep, 102);
    fill(spec_.unk, 100);
    fill(spec_.pad, 0);
    fill(spec_.mask, 103);
  } else if (family_ == Family::unigram) {
    fill(spec_.eos, 1);
    fill(spec_.unk, 2);
    fill(spec_.pad, 0);
  } else if (contains(11) && text(11) == "<|endoftext|>") {  // Falcon
    fill(spec_.bos, 11);
    fill(spec_.eos, 11);
  }
}

void Vocabulary::check_ids() const {
  const auto check_field = [&](std::string_view field, std::optional<Token> id) {
    if (id && !contains(*id)) {
      core::fail(ErrorCode::corrupt, "{} token: {} is outside the vocabulary of {}", field, *id, size());
    }
  };
  check_field("bos", spec_.bos);
  check_field("eos", spec_.eos);
  check_field("eot", spec_.eot);
  check_field("eom", spec_.eom);
  check_field("unknown", spec_.unk);
  check_field("separator", spec_.sep);
  check_field("padding", spec_.pad);
  check_field("mask", spec_.mask);
  for (const Token id : spec_.extra_eog) check_field("end of generation", id);
}

void Vocabulary::mark_control_spellings() {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const std::string_view text = spec_.tokens[i];
    if (!text.empty()) by_text_.insert(text, static_cast<std::int32_t>(i));
    if (kinds_[i] != TokenKind::user_defined) continue;
    if (text::contains(end_spellings, text) || text::contains(fill_in_spellings, text)) kinds_[i] = TokenKind::control;
  }
}

void Vocabulary::resolve_bytes() {
  const bool alphabet = family_ == Family::byte_bpe && !pre_->raw_utf8;
  std::size_t total = 0;
  for (std::size_t i = 0; i < spec_.tokens.size(); ++i) total += spec_.tokens[i].size();
  bytes_.reserve(spec_.tokens.size(), total);
  std::string bytes;
  for (std::size_t i = 0; i < spec_.tokens.size(); ++i) {
    const std::string_view text = spec_.tokens[i];
    const TokenKind kind = kinds_[i];
    bytes.clear();
    const int byte = kind == TokenKind::byte ? spelled_byte(text) : -1;
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      if (byte_tokens_[static_cast<std::size_t>(byte)] < 0)
        byte_tokens_[static_cast<std::size_t>(byte)] = static_cast<Token>(i);
    } else if (kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::user_defined) {
      bytes = text;
    } else if (alphabet) {
      if (!append_from_byte_alphabet(text, bytes)) bytes = text;
    } else {
      append_marks_as_spaces(text, bytes);
    }
    bytes_.push_back(bytes);
    longest_bytes_ = std::max(longest_bytes_, bytes.size());
  }
  if (!alphabet) return;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const std::string_view single = bytes_[i];
    if (kinds_[i] != TokenKind::normal || single.size() != 1) continue;
    Token& slot = byte_tokens_[static_cast<std::uint8_t>(single[0])];
    if (slot < 0) slot = static_cast<Token>(i);
  }
}

void Vocabulary::resolve_policies() {
  const bool bos_default = family_ == Family::sentencepiece_bpe || family_ == Family::wordpiece ||
                           (family_ == Family::byte_bpe && pre_->add_bos) || spec_.family == "gemma4";
  const bool closing_default = family_ == Family::unigram || family_ == Family::wordpiece;
  adds_bos_ = spec_.add_bos.value_or(bos_default) || spec_.family == "gemma4";
  adds_closing_ = (family_ == Family::wordpiece ? spec_.add_sep : spec_.add_eos).value_or(closing_default);
  // A file that asks for a token it does not have cannot mean it.
  if (!spec_.bos) adds_bos_ = false;
  if (!closing()) adds_closing_ = false;
  const bool prefix_possible = family_ == Family::sentencepiece_bpe || family_ == Family::unigram;
  adds_space_prefix_ = prefix_possible && spec_.add_space_prefix.value_or(family_ == Family::sentencepiece_bpe);
}

void Vocabulary::collect_stop_tokens() {
  const auto add = [&](std::optional<Token> id) {
    if (id) stop_tokens_.push_back(*id);
  };
  add(spec_.eos);
  add(spec_.eot);
  add(spec_.eom);
  stop_tokens_.insert(stop_tokens_.end(), spec_.extra_eog.begin(), spec_.extra_eog.end());
  for (const std::string_view spelling : end_spellings) {
    const Token id = by_text_.find(spelling);
    if (id >= 0 && kind(id) == TokenKind::control) stop_tokens_.push_back(id);
  }
  // Models that speak in channels end each of them with <|end|> and the answer with <|return|> or <|call|>.
  const auto stops = [&](std::string_view spelling) {
    const Token id = by_text_.find(spelling);
    return id >= 0 && std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end();
  };
  if ((stops("<|return|>") && stops("<|call|>")) || (stops("<|calls|>") && stops("<|flush|>"))) {
    std::erase(stop_tokens_, by_text_.find("<|end|>"));
  }
  std::sort(stop_tokens_.begin(), stop_tokens_.end());
  stop_tokens_.erase(std::unique(stop_tokens_.begin(), stop_tokens_.end()), stop_tokens_.end());
}

}  // namespace llminfer::text
