#include "format/tokenizer_keys.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/fail.h"
#include "format/printable.h"

namespace llminfer::format {
namespace {

constexpr const char* tokens_key = "tokenizer.ggml.tokens";

std::optional<Token> read_id(const Metadata& metadata, std::string_view key) {
  constexpr std::int64_t none = 0xFFFFFFFF;  // how files spell -1 in a uint32
  const std::optional<std::int64_t> id = metadata.integer(key);
  if (!id || *id == -1 || *id == none) return std::nullopt;
  if (*id < 0 || *id > std::numeric_limits<Token>::max()) {
    core::fail(ErrorCode::corrupt, "key '{}' is {}, not a token id", key, *id);
  }
  return static_cast<Token>(*id);
}

void check_count(std::string_view key, std::uint64_t count, std::size_t tokens) {
  if (count == tokens) return;
  core::fail(ErrorCode::corrupt, "key '{}' has {} elements for {} tokens", key, count, tokens);
}

const Value* find_array(const Metadata& metadata, std::string_view key) {
  const Value* value = metadata.find(key);
  if (value && value->type != ValueType::array) {
    core::fail(ErrorCode::corrupt, "key '{}' is of type {}, not array", key, name_of(value->type));
  }
  return value;
}

core::Vector<float> read_scores(const Metadata& metadata, std::size_t tokens) {
  constexpr const char* key = "tokenizer.ggml.scores";
  const Value* value = find_array(metadata, key);
  if (!value) return {};
  if (value->element != ValueType::float32) {
    core::fail(ErrorCode::corrupt, "key '{}' is an array of {}, not of float32", key, name_of(value->element));
  }
  check_count(key, value->count, tokens);
  core::Vector<float> scores(tokens, 0.0F, value->numbers.get_allocator().memory());
  if (tokens > 0) std::memcpy(scores.data(), value->numbers.data(), tokens * sizeof(float));
  for (std::size_t i = 0; i < tokens; ++i) {
    if (std::isnan(scores[i])) core::fail(ErrorCode::corrupt, "key '{}' is not a number at element {}", key, i);
  }
  return scores;
}

core::Vector<text::TokenKind> read_kinds(const Metadata& metadata, std::size_t tokens) {
  constexpr const char* key = "tokenizer.ggml.token_type";
  const Value* value = find_array(metadata, key);
  if (!value) return {};
  check_count(key, value->count, tokens);
  const std::size_t size = size_of(value->element);
  core::Vector<text::TokenKind> kinds(tokens, text::TokenKind::normal, value->numbers.get_allocator().memory());
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::optional<std::int64_t> kind =
        size == 0 ? std::nullopt : as_integer(value->element, value->numbers.data() + i * size);
    if (!kind) core::fail(ErrorCode::corrupt, "key '{}' is an array of {}", key, name_of(value->element));
    if (*kind < 0 || *kind > 6)
      core::fail(ErrorCode::corrupt, "key '{}' is {} at element {}, not 1 to 6", key, *kind, i);
    if (*kind > 0) kinds[i] = static_cast<text::TokenKind>(*kind);  // 0: undefined
  }
  return kinds;
}

std::string read_charsmap(const Metadata& metadata) {
  constexpr const char* key = "tokenizer.ggml.precompiled_charsmap";
  const Value* value = find_array(metadata, key);
  if (!value) return {};
  if (value->element != ValueType::uint8 && value->element != ValueType::int8) {
    core::fail(ErrorCode::corrupt, "key '{}' is an array of {}, not of uint8", key, name_of(value->element));
  }
  return {reinterpret_cast<const char*>(value->numbers.data()), value->numbers.size()};
}

void read_special_tokens(const Metadata& metadata, text::TokenizerSpec& spec) {
  const auto id = [&](const char* name) { return read_id(metadata, fmt::format("tokenizer.ggml.{}_token_id", name)); };
  spec.bos = id("bos");
  if (!spec.bos) spec.bos = id("cls");  // BERT's first token under its own name
  spec.eos = id("eos");
  spec.eot = id("eot");
  spec.eom = id("eom");
  spec.unk = id("unknown");
  spec.sep = id("seperator");  // sic
  spec.pad = id("padding");
  spec.mask = id("mask");
}

void read_flags(const Metadata& metadata, text::TokenizerSpec& spec) {
  spec.add_bos = metadata.boolean("tokenizer.ggml.add_bos_token");
  spec.add_eos = metadata.boolean("tokenizer.ggml.add_eos_token");
  spec.add_sep = metadata.boolean("tokenizer.ggml.add_sep_token");
  spec.add_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
  spec.remove_extra_whitespaces = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces");
  spec.lowercase = metadata.boolean("tokenizer.ggml.normalizer.lowercase");
  spec.strip_accents = metadata.boolean("tokenizer.ggml.normalizer.strip_accents");
  // No key says it: the tokens of Phi-3 have the attribute "rstrip".
  std::string name = metadata.string("general.name").value_or("");
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  spec.strip_after_special = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

void read_templates(const Metadata& metadata, text::TokenizerSpec& spec) {
  constexpr std::string_view key = "tokenizer.chat_template", prefix = "tokenizer.chat_template.";
  spec.chat_template = metadata.string(key).value_or("");
  for (const Value& value : metadata.values()) {
    const std::string_view name = value.key;
    if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) continue;
    spec.named_templates.emplace_back(name.substr(prefix.size()), metadata.string(name).value_or(""));
  }
}

std::optional<float> read_real(const Metadata& metadata, std::string_view key) {
  const std::optional<double> value = metadata.real(key);
  if (!value) return std::nullopt;
  if (std::fabs(*value) > 1e6) core::fail(ErrorCode::corrupt, "key '{}' is {}", key, *value);
  return static_cast<float>(*value);
}

std::optional<int> read_count(const Metadata& metadata, std::string_view key) {
  const std::optional<std::int64_t> value = metadata.integer(key);
  if (!value) return std::nullopt;
  if (*value < -1 || *value > std::numeric_limits<int>::max()) {
    core::fail(ErrorCode::corrupt, "key '{}' is {}", key, *value);
  }
  return static_cast<int>(*value);
}

}  // namespace

text::TokenizerSpec read_tokenizer(Metadata& metadata) {
  text::TokenizerSpec spec;
  spec.family = metadata.string("tokenizer.ggml.model").value_or("");
  spec.pre = metadata.string("tokenizer.ggml.pre").value_or("");
  spec.tokens = metadata.take_strings(tokens_key);
  if (spec.tokens.memory() != nullptr) spec.memory = spec.tokens.memory();
  if (spec.tokens.size() > static_cast<std::size_t>(std::numeric_limits<Token>::max())) {
    core::fail(ErrorCode::corrupt, "key '{}' has {} elements", tokens_key, spec.tokens.size());
  }
  spec.scores = read_scores(metadata, spec.tokens.size());
  spec.kinds = read_kinds(metadata, spec.tokens.size());
  spec.merges = metadata.take_strings("tokenizer.ggml.merges");
  spec.charsmap = read_charsmap(metadata);
  read_special_tokens(metadata, spec);
  read_flags(metadata, spec);
  read_templates(metadata, spec);
  return spec;
}

SamplingDefaults read_sampling(const Metadata& metadata) {
  SamplingDefaults sampling;
  sampling.temperature = read_real(metadata, "general.sampling.temp");
  sampling.top_p = read_real(metadata, "general.sampling.top_p");
  sampling.min_p = read_real(metadata, "general.sampling.min_p");
  sampling.xtc_probability = read_real(metadata, "general.sampling.xtc_probability");
  sampling.xtc_threshold = read_real(metadata, "general.sampling.xtc_threshold");
  sampling.repetition_penalty = read_real(metadata, "general.sampling.penalty_repeat");
  sampling.top_k = read_count(metadata, "general.sampling.top_k");
  sampling.penalty_last_n = read_count(metadata, "general.sampling.penalty_last_n");
  return sampling;
}

}  // namespace llminfer::format
