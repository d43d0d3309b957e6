// Where the tests' vocabularies are.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace llminfer::test {

/// ../shared, or nothing (with a printed reason).
std::optional<std::filesystem::path> shared_folder();
/// The tokenizer of shared/vocab/ggml-vocab-NAME.gguf, or null (with a printed reason) where the folder is absent.
std::unique_ptr<text::Tokenizer> open_vocab(const std::string& name);
/// The tokenizer of a model in the models' folder, or null (with a printed reason).
std::unique_ptr<text::Tokenizer> open_model_vocab(const std::string& file);
text::TokenizerSpec read_spec(const std::filesystem::path& file);
std::string read_text(const std::filesystem::path& file);
std::vector<std::string> split(const std::string& text, const std::string& separator);

inline constexpr EncodeOptions bare{SpecialText::none, AddToken::no, AddToken::no};
inline constexpr EncodeOptions bare_parse{SpecialText::parse, AddToken::no, AddToken::no};

}  // namespace llminfer::test
