#include "support/gguf_cases.h"

#include <cmath>
#include <functional>
#include <limits>

#include "format/model_file.h"

namespace llminfer::test {
namespace {

using Change = std::function<void(GgufBuilder&)>;

class Cases {
 public:
  void add(std::string name, ErrorCode code, std::vector<std::string> said, const Change& change) {
    GgufBuilder file = tiny_llama();
    change(file);
    list.push_back({std::move(name), file.build(), code, std::move(said)});
  }
  std::vector<GgufCase> list;
};

template <class T>
Change set(std::string key, T value) {
  return [=](GgufBuilder& file) { file.number(key, value); };
}
Change drop(std::string key) {
  return [=](GgufBuilder& file) { file.without(key); };
}
Change tensor(std::string name, std::function<void(GgufTensor&)> change) {
  return [=](GgufBuilder& file) { change(file.at(name)); };
}

constexpr auto corrupt = ErrorCode::corrupt;
constexpr auto truncated = ErrorCode::truncated;
constexpr auto unsupported = ErrorCode::unsupported_type;
constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();

void add_headers(Cases& cases) {
  cases.add("magic", ErrorCode::not_gguf, {"GGML"}, [](GgufBuilder& f) { f.magic = "GGML"; });
  cases.list.push_back({"empty", {}, truncated, {"empty"}});
  cases.list.push_back({"two_bytes", {std::byte{'G'}, std::byte{'G'}}, truncated, {"2 bytes"}});
  cases.add("version_0", unsupported, {"version 0"}, [](GgufBuilder& f) { f.version = 0; });
  cases.add("version_1", unsupported, {"version 1"}, [](GgufBuilder& f) { f.version = 1; });
  cases.add("version_4", unsupported, {"version 4"}, [](GgufBuilder& f) { f.version = 4; });
  cases.add("big_endian", unsupported, {"big-endian"}, [](GgufBuilder& f) { f.version = 0x03000000; });
  cases.add("key_count_max", truncated, {"18446744073709551615 keys"}, [](GgufBuilder& f) { f.key_count = top; });
  cases.add("tensor_count_max", truncated, {"18446744073709551615 tensors"},
            [](GgufBuilder& f) { f.tensor_count = top; });
  cases.add("key_count_more", truncated, {"keys"}, [](GgufBuilder& f) { f.key_count = f.keys.size() + 1000000; });
  cases.add("tensor_count_plus_1", corrupt, {"tensor 20", "name of length"},
            [](GgufBuilder& f) { f.tensor_count = f.tensors.size() + 1; });
  cases.add("split", ErrorCode::mismatch, {"split.count", "3"}, set("split.count", std::uint16_t{3}));
}

void add_keys(Cases& cases) {
  cases.add("key_name_empty", corrupt, {"key 0", "length 0"}, [](GgufBuilder& f) { f.keys[0].name = ""; });
  cases.add("key_name_long", corrupt, {"key 3", "1152921504606846976"},
            [](GgufBuilder& f) { f.keys[3].name_length = std::uint64_t{1} << 60; });
  cases.add("key_name_wraps", corrupt, {"key 3", "18446744073709551608"},
            [](GgufBuilder& f) { f.keys[3].name_length = top - 7; });
  cases.add("key_twice", corrupt, {"llama.block_count", "twice"}, [](GgufBuilder& f) {
    f.keys.push_back({"llama.block_count", 4, Bytes(4)});
  });
  cases.add("value_type_13", unsupported, {"'strange'", "type 13"},
            [](GgufBuilder& f) { f.raw("strange", 13, Bytes(64)); });
  cases.add("value_type_max", unsupported, {"'strange'", "type 4294967295"},
            [](GgufBuilder& f) { f.raw("strange", 0xFFFFFFFF, Bytes(64)); });
  cases.add("bool_7", corrupt, {"'flag'", "7"}, [](GgufBuilder& f) { f.raw("flag", 7, Bytes(1, std::byte{7})); });
  cases.add("bool_array_9", corrupt, {"'flags'", "9"}, [](GgufBuilder& f) {
    f.array("flags", std::vector<bool>{true, false});
    f.keys.back().value.back() = std::byte{9};
  });
  cases.add("string_longer_than_file", truncated, {"'text'", "1099511627776"}, [](GgufBuilder& f) {
    Bytes value;
    put_string(value, "x", std::uint64_t{1} << 40);
    f.raw("text", gguf_string, value);
  });
  cases.add("string_wraps", truncated, {"'text'", "18446744073709551615"}, [](GgufBuilder& f) {
    Bytes value;
    put_string(value, "x", top);
    f.raw("text", gguf_string, value);
  });
  cases.add("array_longer_than_file", truncated, {"'list'", "1099511627776"},
            [](GgufBuilder& f) { f.array<float>("list", {1.0F}, std::uint64_t{1} << 40); });
  cases.add("array_product_wraps", truncated, {"'list'", "4611686018427387905"},
            [](GgufBuilder& f) { f.array<std::uint32_t>("list", {1}, (std::uint64_t{1} << 62) + 1); });
  cases.add("string_array_longer_than_file", truncated, {"'list'", "18446744073709551615"},
            [](GgufBuilder& f) { f.strings("list", {"a"}, top); });
  cases.add("string_array_element_long", truncated, {"'list'", "1125899906842624"}, [](GgufBuilder& f) {
    f.strings("list", {"abc"});
    const std::uint64_t length = std::uint64_t{1} << 50;
    std::memcpy(f.keys.back().value.data() + 12, &length, sizeof(length));
  });
  cases.add("nested_array", unsupported, {"'list'", "array of arrays"}, [](GgufBuilder& f) {
    Bytes value;
    put(value, gguf_array);
    put(value, std::uint64_t{1});
    f.raw("list", gguf_array, value);
  });
  cases.add("element_type_unknown", unsupported, {"'list'", "77"}, [](GgufBuilder& f) {
    Bytes value;
    put(value, std::uint32_t{77});
    put(value, std::uint64_t{1});
    f.raw("list", gguf_array, value);
  });
}

void add_alignments(Cases& cases) {
  for (const std::uint32_t value : {0U, 1U, 3U, 48U, 1U << 31, 0xFFFFFFFFU}) {
    cases.add("alignment_" + std::to_string(value), corrupt, {"general.alignment", std::to_string(value)},
              set("general.alignment", value));
  }
  cases.add("alignment_uint64", corrupt, {"general.alignment", "uint64"}, set("general.alignment", std::uint64_t{32}));
  cases.add("alignment_string", corrupt, {"general.alignment", "string"},
            [](GgufBuilder& f) { f.string("general.alignment", "32"); });
}

void add_tensors(Cases& cases) {
  const std::string q = "blk.1.attn_q.weight";
  cases.add("tensor_name_empty", corrupt, {"tensor 0", "length 0"}, [](GgufBuilder& f) { f.tensors[0].name = ""; });
  cases.add("tensor_name_long", corrupt, {"tensor 0", "1025"},
            [](GgufBuilder& f) { f.tensors[0].name = std::string(1025, 'x'); });
  cases.add("tensor_name_wraps", corrupt, {"tensor 2", "18446744073709551615"},
            [](GgufBuilder& f) { f.tensors[2].name_length = top; });
  cases.add("tensor_twice", corrupt, {q, "twice"}, tensor("blk.0.attn_q.weight", [=](GgufTensor& t) { t.name = q; }));
  for (const std::uint32_t n : {0U, 5U, 9U, 0xFFFFFFFFU}) {
    cases.add("n_dims_" + std::to_string(n), corrupt, {q, std::to_string(n)},
              tensor(q, [=](GgufTensor& t) { t.n_dims = n; }));
  }
  for (const std::uint64_t size : {std::uint64_t{0}, (std::uint64_t{1} << 42) + 1, top}) {
    cases.add("dimension_" + std::to_string(size), corrupt, {q, std::to_string(size)},
              tensor(q, [=](GgufTensor& t) { t.dims[1] = size; }));
  }
  cases.add("dims_product_wraps", corrupt, {q, "64 bits"}, tensor(q, [](GgufTensor& t) {
              t.dims = {1U << 30, 1U << 30, 1U << 30, 1U << 30};
            }));
  cases.add("row_no_multiple", corrupt, {q, "Q8_0", "33"}, tensor(q, [](GgufTensor& t) { t.dims[0] = 33; }));
  for (const std::uint32_t type : {4U, 16U, 24U, 31U, 1000U, 0xFFFFFFFFU}) {
    cases.add("tensor_type_" + std::to_string(type), unsupported, {q, std::to_string(type)},
              tensor(q, [=](GgufTensor& t) { t.type = type; }));
  }
  cases.add("offset_unaligned", corrupt, {q, "33"}, tensor(q, [](GgufTensor& t) { t.offset = 33; }));
  cases.add("offset_past_end", truncated, {q, "1099511627776"},
            tensor(q, [](GgufTensor& t) { t.offset = std::uint64_t{1} << 40; }));
  cases.add("offset_wraps", corrupt, {q, "18446744073709551584"},
            tensor(q, [](GgufTensor& t) { t.offset = top - 31; }));
  cases.add("tensor_longer_than_file", truncated, {q, "68719476736"}, tensor(q, [](GgufTensor& t) {
              t.type = 0;
              t.dims = {1U << 17, 1U << 17};
            }));
  cases.add("tensors_overlap", corrupt, {q, "inside"}, tensor(q, [](GgufTensor& t) { t.offset = 0; }));
  cases.add("tensor_missing", ErrorCode::not_found, {q}, tensor(q, [](GgufTensor& t) { t.name = "other.weight"; }));
  cases.add("tensor_shape", corrupt, {q, "[32, 16]", "[32, 32]"}, tensor(q, [](GgufTensor& t) { t.dims[1] = 16; }));
}

void add_sizes(Cases& cases) {
  const auto key = [&](const std::string& name, auto value, const std::string& text) {
    cases.add(name + "_" + text, corrupt, {"llama." + name, text}, set("llama." + name, value));
  };
  for (const char* name : {"block_count", "embedding_length", "context_length", "attention.head_count",
                           "attention.head_count_kv", "attention.key_length", "attention.value_length"}) {
    key(name, std::uint32_t{0}, "0");
    key(name, std::uint32_t{1} << 31, "2147483648");
    key(name, std::int32_t{-1}, "-1");
    key(name, top, "18446744073709551615");
  }
  key("attention.head_count_kv", std::uint32_t{3}, "3");
  key("attention.head_count", std::uint32_t{5}, "5");
  key("feed_forward_length", std::uint32_t{1} << 31, "2147483648");
  key("vocab_size", std::uint32_t{0}, "0");
  key("rope.dimension_count", std::uint32_t{7}, "7");
  key("rope.dimension_count", std::uint32_t{10}, "10");
  key("rope.scaling.original_context_length", std::uint32_t{0}, "0");
  key("attention.sliding_window", std::int32_t{-5}, "-5");
  key("expert_count", std::uint32_t{1} << 31, "2147483648");
  key("expert_used_count", std::uint32_t{2}, "2");
  cases.add("expert_used_0", corrupt, {"expert_used_count", "0"}, set("llama.expert_count", std::uint32_t{8}));
  cases.add("layers_of_heads", corrupt, {"llama.attention.head_count", "3 elements"}, [](GgufBuilder& f) {
    f.array("llama.attention.head_count", std::vector<std::uint32_t>{4, 4, 4});
  });
  cases.add("window_pattern_length", corrupt, {"sliding_window_pattern", "3 elements"}, [](GgufBuilder& f) {
    f.array("llama.attention.sliding_window_pattern", std::vector<bool>{true, false, true});
  });
}

void add_reals(Cases& cases) {
  const auto real = [&](const std::string& name, float value, const std::string& text) {
    cases.add(name + "_" + text, corrupt, {"llama." + name, text}, set("llama." + name, value));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  real("attention.layer_norm_rms_epsilon", std::nanf(""), "nan");
  real("attention.layer_norm_rms_epsilon", 0.0F, "0");
  real("attention.layer_norm_rms_epsilon", -1.0F, "-1");
  real("rope.freq_base", infinity, "inf");
  real("rope.freq_base", 0.0F, "0");
  real("rope.scaling.factor", -2.0F, "-2");
  real("attn_logit_softcapping", -infinity, "-inf");
  cases.add("epsilon_missing", corrupt, {"llama.attention.layer_norm_rms_epsilon", "missing"},
            drop("llama.attention.layer_norm_rms_epsilon"));
  cases.add("layers_missing", corrupt, {"llama.block_count", "missing"}, drop("llama.block_count"));
  cases.add("heads_missing", corrupt, {"llama.attention.head_count", "missing"}, drop("llama.attention.head_count"));
  cases.add("layers_as_float", corrupt, {"llama.block_count", "float32"}, set("llama.block_count", 2.0F));
  cases.add("freq_base_as_int", corrupt, {"llama.rope.freq_base", "uint32"},
            set("llama.rope.freq_base", std::uint32_t{10000}));
}

void add_architectures(Cases& cases) {
  const auto architecture = ErrorCode::unsupported_architecture;
  cases.add("architecture_missing", corrupt, {"general.architecture"}, drop("general.architecture"));
  cases.add("architecture_number", corrupt, {"general.architecture", "uint32"},
            set("general.architecture", std::uint32_t{1}));
  cases.add("adapter", architecture, {"general.type", "adapter"},
            [](GgufBuilder& f) { f.string("general.type", "adapter"); });
  cases.add("rope_scaling_unknown", architecture, {"llama.rope.scaling.type", "su"},
            [](GgufBuilder& f) { f.string("llama.rope.scaling.type", "su"); });
  cases.add("gating_unknown", architecture, {"llama.expert_gating_func", "9"},
            set("llama.expert_gating_func", std::uint32_t{9}));
}

void add_tokenizers(Cases& cases) {
  cases.add("scores_short", corrupt, {"tokenizer.ggml.scores", "15"},
            [](GgufBuilder& f) { f.array("tokenizer.ggml.scores", std::vector<float>(15)); });
  cases.add("scores_nan", corrupt, {"tokenizer.ggml.scores", "element 4"}, [](GgufBuilder& f) {
    std::vector<float> scores(16);
    scores[4] = std::nanf("");
    f.array("tokenizer.ggml.scores", scores);
  });
  cases.add("token_type_9", corrupt, {"tokenizer.ggml.token_type", "9"},
            [](GgufBuilder& f) { f.array("tokenizer.ggml.token_type", std::vector<std::int32_t>(16, 9)); });
  cases.add("token_type_long", corrupt, {"tokenizer.ggml.token_type", "17"},
            [](GgufBuilder& f) { f.array("tokenizer.ggml.token_type", std::vector<std::int32_t>(17, 1)); });
  cases.add("tokens_numbers", corrupt, {"tokenizer.ggml.tokens", "uint32"},
            [](GgufBuilder& f) { f.array("tokenizer.ggml.tokens", std::vector<std::uint32_t>(16)); });
  cases.add("bos_negative", corrupt, {"tokenizer.ggml.bos_token_id", "-7"},
            set("tokenizer.ggml.bos_token_id", std::int32_t{-7}));
  cases.add("add_bos_number", corrupt, {"tokenizer.ggml.add_bos_token", "uint8"},
            set("tokenizer.ggml.add_bos_token", std::uint8_t{1}));
  cases.add("temperature_nan", corrupt, {"general.sampling.temp", "nan"}, set("general.sampling.temp", std::nanf("")));
}

}  // namespace

std::vector<GgufCase> malformed_cases() {
  Cases cases;
  add_headers(cases);
  add_keys(cases);
  add_alignments(cases);
  add_tensors(cases);
  add_sizes(cases);
  add_reals(cases);
  add_architectures(cases);
  add_tokenizers(cases);
  return std::move(cases.list);
}

void load_like_a_model(std::span<const std::byte> file) {
  using format::Role;
  const format::ModelFile model = format::ModelFile::open(ModelSource::memory(file));
  const format::HyperParameters hyper = model.hyper_parameters();
  model.need(hyper.rms_eps, "rms_eps");
  const std::int64_t width = hyper.embedding_length;
  model.require(Role::token_embd, -1, {width, static_cast<std::int64_t>(model.tokenizer().tokens.size())});
  model.require(Role::output_norm, -1, {width});
  for (int layer = 0; layer < hyper.block_count; ++layer) {
    const std::int64_t q = std::int64_t{hyper.head_count(layer)} * hyper.key_length;
    const std::int64_t k = std::int64_t{hyper.head_count_kv(layer)} * hyper.key_length;
    const std::int64_t v = std::int64_t{hyper.head_count_kv(layer)} * hyper.value_length;
    model.require(Role::attn_norm, layer, {width});
    model.require(Role::attn_q, layer, {width, q});
    model.require(Role::attn_k, layer, {width, k});
    model.require(Role::attn_v, layer, {width, v});
    model.require(Role::ffn_up, layer, {width, hyper.feed_forward_length(layer)});
    model.optional(Role::attn_q, layer, {q}, true);
  }
  Bytes data;
  for (const format::TensorInfo& tensor : model.tensors()) {
    data.resize(static_cast<std::size_t>(tensor.bytes));
    model.read(tensor, 0, data);
  }
}

}  // namespace llminfer::test
