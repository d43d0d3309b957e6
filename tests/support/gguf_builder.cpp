#include "support/gguf_builder.h"

#include <algorithm>
#include <stdexcept>

namespace llminfer::test {
namespace {

std::size_t align(std::size_t value, std::uint64_t alignment) {
  return static_cast<std::size_t>((value + alignment - 1) / alignment * alignment);
}

Bytes varied_q8_0(std::size_t weights) {
  Bytes data(weights / 32 * 34);
  for (std::size_t i = 0; i < data.size(); ++i) {
    // Each block: a half-precision scale of 2^-7, then 32 signed bytes.
    const std::size_t at = i % 34;
    data[i] = static_cast<std::byte>(at == 0 ? 0x00 : at == 1 ? 0x20 : (i * 37) % 251);
  }
  return data;
}

}  // namespace

GgufBuilder& GgufBuilder::raw(const std::string& key, std::uint32_t type, Bytes value) {
  for (GgufKey& existing : keys) {
    if (existing.name != key) continue;
    existing.type = type;
    existing.value = std::move(value);
    return *this;
  }
  keys.push_back({key, type, std::move(value)});
  return *this;
}

GgufBuilder& GgufBuilder::without(const std::string& key) {
  keys.erase(std::remove_if(keys.begin(), keys.end(), [&](const GgufKey& k) { return k.name == key; }), keys.end());
  return *this;
}

GgufTensor& GgufBuilder::tensor(std::string name, std::vector<std::uint64_t> dims, std::uint32_t type, Bytes data) {
  tensors.push_back({std::move(name), std::move(dims), type, std::move(data)});
  return tensors.back();
}

GgufTensor& GgufBuilder::at(std::string_view name) {
  for (GgufTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range("no such tensor");
}

Bytes GgufBuilder::build() const {
  Bytes out;
  put_text(out, magic);
  put(out, version);
  put(out, tensor_count.value_or(tensors.size()));
  put(out, key_count.value_or(keys.size()));
  for (const GgufKey& key : keys) {
    put_string(out, key.name, key.name_length);
    put(out, key.type);
    out.insert(out.end(), key.value.begin(), key.value.end());
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    put_string(out, tensor.name, tensor.name_length);
    put(out, tensor.n_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
    for (const std::uint64_t size : tensor.dims) put(out, size);
    put(out, tensor.type);
    put(out, tensor.offset.value_or(offset));
    offset = align(static_cast<std::size_t>(offset) + tensor.data.size(), alignment);
  }
  for (const GgufTensor& tensor : tensors) {
    out.resize(align(out.size(), alignment));
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  }
  return out;
}

Bytes float_data(std::size_t count, std::uint32_t seed) {
  Bytes data;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    put(data, static_cast<float>(seed >> 8) / static_cast<float>(1U << 24) * 0.2F - 0.1F);
  }
  return data;
}

GgufBuilder tiny_llama() {
  constexpr std::uint64_t width = 32, kv = 16, feed_forward = 64, vocabulary = 16;
  constexpr std::uint32_t f32 = 0, q8_0 = 8;
  GgufBuilder file;
  file.string("general.architecture", "llama").string("general.name", "tiny");
  file.number("llama.context_length", std::uint32_t{128}).number("llama.embedding_length", std::uint32_t{width});
  file.number("llama.block_count", std::uint32_t{2}).number("llama.feed_forward_length", std::uint32_t{feed_forward});
  file.number("llama.attention.head_count", std::uint32_t{4});
  file.number("llama.attention.head_count_kv", std::uint32_t{2});
  file.number("llama.attention.layer_norm_rms_epsilon", 1e-5F).number("llama.rope.freq_base", 10000.0F);
  file.string("tokenizer.ggml.model", "llama");
  file.strings("tokenizer.ggml.tokens",
               {"<unk>", "<s>", "</s>", "a", "b", "c", "d", "e", "\xE2\x96\x81", "ab", "cd", "abcd",
                "\xE2\x96\x81"
                "a",
                "f", "g", "h"});
  std::vector<float> scores;
  for (int i = 0; i < static_cast<int>(vocabulary); ++i) scores.push_back(static_cast<float>(-i));
  file.array("tokenizer.ggml.scores", scores);
  file.array("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  file.number("tokenizer.ggml.bos_token_id", std::uint32_t{1}).number("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  file.number("tokenizer.ggml.add_bos_token", true);

  std::uint32_t seed = 1;
  const auto floats = [&](const std::string& name, std::vector<std::uint64_t> dims) {
    std::uint64_t count = 1;
    for (const std::uint64_t size : dims) count *= size;
    file.tensor(name, std::move(dims), f32, float_data(static_cast<std::size_t>(count), seed++));
  };
  const auto quantized = [&](const std::string& name, std::uint64_t columns, std::uint64_t rows) {
    file.tensor(name, {columns, rows}, q8_0, varied_q8_0(static_cast<std::size_t>(columns * rows)));
  };
  floats("token_embd.weight", {width, vocabulary});
  floats("output_norm.weight", {width});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    floats(layer + "attn_norm.weight", {width});
    quantized(layer + "attn_q.weight", width, width);
    quantized(layer + "attn_k.weight", width, kv);
    quantized(layer + "attn_v.weight", width, kv);
    floats(layer + "attn_output.weight", {width, width});
    floats(layer + "ffn_norm.weight", {width});
    floats(layer + "ffn_gate.weight", {width, feed_forward});
    floats(layer + "ffn_up.weight", {width, feed_forward});
    floats(layer + "ffn_down.weight", {feed_forward, width});
  }
  return file;
}

}  // namespace llminfer::test
