// What a model file says of its tokenizer, in neutral form: format/ fills it, text/ builds a tokenizer from it.
#pragma once

#include <llminfer/types.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/string_table.h"

namespace llminfer::text {

/// How a vocabulary entry may be used (the token_type array of GGUF, same numbers).
enum class TokenKind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// Ids in here are not yet checked against the vocabulary: Tokenizer construction does that and names the field.
struct TokenizerSpec {
  std::shared_ptr<core::Memory> memory =
      std::make_shared<core::Memory>();  ///< of all that is large in here and made of it
  std::string family;  ///< "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "bert", "t5", "gemma4", ...
  std::string pre;     ///< name of the pre-tokenizer rules, empty when the file has none
  core::StringTable tokens{memory};    ///< the vocabulary, as stored (byte-level families: in their printable alphabet)
  core::Vector<float> scores{memory};  ///< empty, or one a token
  core::Vector<TokenKind> kinds{memory};  ///< empty (all normal), or one a token
  core::StringTable merges{memory};       ///< "left right" pairs in rank order
  std::string charsmap;                   ///< SentencePiece's precompiled_charsmap, raw bytes; may be empty
  std::optional<Token> bos, eos, eot, eom, unk, sep, pad, mask;
  std::vector<Token> extra_eog;  ///< further ids that end a generation, if the file lists any
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  ///< normalization of "bert"; default true, and as lowercase
  bool strip_after_special = false;              ///< special tokens swallow the white space after them (Phi-3)
  std::string chat_template;                     ///< the default template's source, empty when there is none
  std::vector<std::pair<std::string, std::string>> named_templates;  ///< ("tool_use", source), ...
};

}  // namespace llminfer::text
