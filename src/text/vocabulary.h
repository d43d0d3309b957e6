// A checked vocabulary: what each id means, which ids are special, which end a generation. Immutable.
#pragma once

#include <cstddef>
#include <llminfer/types.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/string_table.h"
#include "text/pre_tokenizer.h"
#include "text/string_map.h"
#include "text/tokenizer_spec.h"

namespace llminfer::text {

enum class Family { byte_bpe, sentencepiece_bpe, unigram, wordpiece };

class Vocabulary {
 public:
  /// Throws unsupported_type for an unknown family or pre-tokenizer, corrupt for ids outside the vocabulary and arrays
  /// of the wrong length, naming the field. Takes the spec's strings; leaves merges and charsmap for the encoder to
  /// use.
  explicit Vocabulary(TokenizerSpec spec);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  Family family() const noexcept { return family_; }
  /// Rules of the pre-tokenizer; meaningful for byte_bpe only.
  const PreRules& pre() const noexcept { return *pre_; }
  const TokenizerSpec& spec() const noexcept { return spec_; }

  int size() const noexcept { return static_cast<int>(spec_.tokens.size()); }
  bool contains(Token id) const noexcept { return id >= 0 && id < size(); }
  /// Throws invalid_argument naming the id and the size.
  void check(Token id) const;

  /// As stored in the file; id must be inside.
  std::string_view text(Token id) const noexcept { return spec_.tokens[static_cast<std::size_t>(id)]; }
  /// The bytes it stands for: alphabet, byte tokens and space marks resolved, control tokens as spelled.
  std::string_view bytes(Token id) const noexcept { return bytes_[static_cast<std::size_t>(id)]; }
  TokenKind kind(Token id) const noexcept { return kinds_[static_cast<std::size_t>(id)]; }
  float score(Token id) const noexcept {
    return spec_.scores.empty() ? 0.0F : spec_.scores[static_cast<std::size_t>(id)];
  }
  bool is_control(Token id) const noexcept {
    return contains(id) && (kind(id) == TokenKind::control || kind(id) == TokenKind::unknown);
  }

  /// Whether white space in the text after this special token belongs to nothing.
  bool strips_after(Token id) const noexcept;

  /// The token stored exactly so, or StringMap::none.
  Token find(std::string_view stored) const noexcept { return by_text_.find(stored); }
  /// The token of kind byte (or, in byte-level vocabularies, the token) that stands for one byte; none if there is
  /// none.
  Token byte_token(std::uint8_t byte) const noexcept { return byte_tokens_[byte]; }
  /// Most bytes that one token stands for.
  std::size_t longest_bytes() const noexcept { return longest_bytes_; }

  std::optional<Token> bos() const noexcept { return spec_.bos; }
  std::optional<Token> eos() const noexcept { return spec_.eos; }
  std::optional<Token> unk() const noexcept { return spec_.unk; }
  /// What encode puts at the end where the model asks for it: SEP for wordpiece, else EOS.
  std::optional<Token> closing() const noexcept { return family_ == Family::wordpiece ? spec_.sep : spec_.eos; }
  bool adds_bos() const noexcept { return adds_bos_; }
  bool adds_closing() const noexcept { return adds_closing_; }
  bool adds_space_prefix() const noexcept { return adds_space_prefix_; }
  bool removes_extra_spaces() const noexcept { return spec_.remove_extra_whitespaces.value_or(false); }

  /// Ids that end a generation, ascending.
  std::span<const Token> stop_tokens() const noexcept { return stop_tokens_; }

 private:
  void resolve_family();
  void check_arrays() const;
  void fill_default_ids();
  void check_ids() const;
  void mark_control_spellings();
  void resolve_bytes();
  void resolve_policies();
  void collect_stop_tokens();

  TokenizerSpec spec_;
  Family family_ = Family::byte_bpe;
  const PreRules* pre_ = nullptr;
  core::Vector<TokenKind> kinds_;
  core::StringTable bytes_;
  StringMap by_text_;
  std::vector<Token> byte_tokens_ = std::vector<Token>(256, StringMap::none);
  std::vector<Token> stop_tokens_;
  std::size_t longest_bytes_ = 0;
  bool adds_bos_ = false, adds_closing_ = false, adds_space_prefix_ = false;
};

}  // namespace llminfer::text
