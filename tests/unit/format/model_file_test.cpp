#include "format/model_file.h"

#include <cstring>

#include "catch.h"
#include "support/gguf_builder.h"

namespace llminfer::format {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::tiny_llama;

ModelFile open(const Bytes& file) { return ModelFile::open(ModelSource::memory(file)); }

TEST_CASE("hyper-parameters of a small model") {
  const Bytes bytes = tiny_llama().build();
  const ModelFile file = open(bytes);
  CHECK(file.architecture() == "llama");
  CHECK(file.name() == "tiny");
  const HyperParameters hyper = file.hyper_parameters();
  CHECK(hyper.vocab_size == 16);
  CHECK(hyper.context_length == 128);
  CHECK(hyper.embedding_length == 32);
  CHECK(hyper.block_count == 2);
  CHECK(hyper.head_count(1) == 4);
  CHECK(hyper.head_count_kv(1) == 2);
  CHECK(hyper.feed_forward_length(0) == 64);
  CHECK(hyper.key_length == 8);
  CHECK(hyper.value_length == 8);
  CHECK(file.need(hyper.rms_eps, "rms_eps") == Approx(1e-5));
  CHECK_FALSE(hyper.norm_eps);
  CHECK(hyper.rope.pairing == RopePairing::interleaved);
  CHECK(hyper.rope.dimension_count == 8);
  CHECK(hyper.rope.scaling == RopeScaling::none);
  CHECK(hyper.rope.original_context_length == 128);
  CHECK_FALSE(hyper.windowed(0, 2));
  CHECK(hyper.experts.count == 0);
}

TEST_CASE("values per layer, of any integer type") {
  GgufBuilder builder = tiny_llama();
  builder.array("llama.attention.head_count_kv", std::vector<std::int64_t>{2, 4});
  builder.number("llama.block_count", std::uint8_t{2}).number("llama.context_length", std::uint64_t{77});
  const Bytes bytes = builder.build();
  const HyperParameters hyper = open(bytes).hyper_parameters();
  CHECK(hyper.head_count_kv(0) == 2);
  CHECK(hyper.head_count_kv(1) == 4);
  CHECK(hyper.context_length == 77);
}

TEST_CASE("an architecture unknown to this folder pairs halves and keeps its own keys") {
  GgufBuilder builder = tiny_llama();
  for (test::GgufKey& key : builder.keys) {
    if (key.name.substr(0, 6) == "llama.") key.name = "other." + key.name.substr(6);
  }
  builder.string("general.architecture", "other");
  const Bytes bytes = builder.build();
  const HyperParameters hyper = open(bytes).hyper_parameters();
  CHECK(hyper.architecture == "other");
  CHECK(hyper.rope.pairing == RopePairing::half);
}

TEST_CASE("RoPE scaling") {
  GgufBuilder builder = tiny_llama();
  SECTION("a factor alone is linear") {
    builder.number("llama.rope.scaling.factor", 4.0F);
    const Bytes bytes = builder.build();
    const RopeParameters rope = open(bytes).hyper_parameters().rope;
    CHECK(rope.scaling == RopeScaling::linear);
    CHECK(rope.factor == 4.0F);
  }
  SECTION("a factor of 0 is none") {
    builder.number("llama.rope.scaling.factor", 0.0F);
    const Bytes bytes = builder.build();
    CHECK(open(bytes).hyper_parameters().rope.scaling == RopeScaling::none);
  }
  SECTION("yarn") {
    builder.string("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.factor", 32.0F);
    builder.number("llama.rope.scaling.original_context_length", std::uint32_t{64});
    builder.number("llama.rope.scaling.yarn_beta_fast", 32.0F);
    const Bytes bytes = builder.build();
    const RopeParameters rope = open(bytes).hyper_parameters().rope;
    CHECK(rope.scaling == RopeScaling::yarn);
    CHECK(rope.original_context_length == 64);
    CHECK(rope.yarn_beta_fast == 32.0F);
    CHECK_FALSE(rope.yarn_beta_slow);
  }
}

TEST_CASE("windows by default period, period and flags") {
  GgufBuilder builder = tiny_llama();
  builder.number("llama.attention.sliding_window", std::uint32_t{16});
  SECTION("the architecture's period: the last of each is full") {
    const Bytes bytes = builder.build();
    const HyperParameters hyper = open(bytes).hyper_parameters();
    CHECK(hyper.windowed(0, 2));
    CHECK_FALSE(hyper.windowed(1, 2));
    CHECK(hyper.windowed(1, 0));
    CHECK_FALSE(hyper.windowed(0, 1));
  }
  SECTION("the file's period") {
    builder.number("llama.attention.sliding_window_pattern", std::uint32_t{1});
    const Bytes bytes = builder.build();
    CHECK_FALSE(open(bytes).hyper_parameters().windowed(0, 6));
  }
  SECTION("the file's flags") {
    builder.array("llama.attention.sliding_window_pattern", std::vector<bool>{false, true});
    const Bytes bytes = builder.build();
    const HyperParameters hyper = open(bytes).hyper_parameters();
    CHECK_FALSE(hyper.windowed(0, 2));
    CHECK(hyper.windowed(1, 2));
  }
}

TEST_CASE("experts and scales") {
  GgufBuilder builder = tiny_llama();
  builder.number("llama.expert_count", std::uint32_t{8}).number("llama.expert_used_count", std::uint32_t{2});
  builder.number("llama.expert_feed_forward_length", std::uint32_t{48}).number("llama.expert_weights_norm", true);
  builder.number("llama.expert_gating_func", std::uint32_t{2}).number("llama.attn_logit_softcapping", 50.0F);
  builder.number("llama.final_logit_softcapping", 0.0F).number("llama.attention.scale", 0.25F);
  const Bytes bytes = builder.build();
  const HyperParameters hyper = open(bytes).hyper_parameters();
  CHECK(hyper.experts.count == 8);
  CHECK(hyper.experts.used == 2);
  CHECK(hyper.experts.feed_forward_length == 48);
  CHECK(hyper.experts.weights_norm == true);
  CHECK(hyper.experts.gating == ExpertGating::sigmoid);
  CHECK(hyper.attn_logit_softcap == 50.0F);
  CHECK_FALSE(hyper.final_logit_softcap);
  CHECK(hyper.attention_scale == 0.25F);
}

TEST_CASE("tensors by role") {
  const GgufBuilder builder = tiny_llama();
  const Bytes bytes = builder.build();
  const ModelFile file = open(bytes);
  CHECK(file.tensors().size() == 20);
  CHECK(file.find(Role::output) == nullptr);
  CHECK(file.find(Role::attn_q, 2) == nullptr);
  CHECK(file.find(Role::attn_q, 1, true) == nullptr);
  const TensorInfo& q = file.require(Role::attn_q, 1, {32, 32});
  CHECK(q.name == "blk.1.attn_q.weight");
  CHECK(q.type == WeightType::q8_0);
  CHECK(q.n_dims == 2);
  CHECK(q.bytes == 32 * 34);
  CHECK(q.rows() == 32);
  CHECK(q.elements() == 1024);

  std::uint64_t sum = 0;
  for (const test::GgufTensor& expected : builder.tensors) {
    const RoleName role = parse_tensor_name(expected.name);
    const TensorInfo& tensor = file.require(role.role, role.layer, role.bias);
    Bytes data(static_cast<std::size_t>(tensor.bytes));
    file.read(tensor, 0, data);
    CHECK(data == expected.data);
    const std::span<const std::byte> mapped = file.mapped(tensor);
    CHECK(Bytes(mapped.begin(), mapped.end()) == expected.data);
    sum += tensor.bytes;
  }
  CHECK(file.tensor_bytes() == sum);

  Bytes some(8);
  file.read(q, 34, some);
  CHECK(std::memcmp(some.data(), builder.tensors[12].data.data() + 34, 8) == 0);
  CHECK_THROWS_AS(file.read(q, q.bytes - 7, some), Exception);
  CHECK_THROWS_AS(file.read(q, ~std::uint64_t{0}, some), Exception);
}

TEST_CASE("names and roles") {
  for (int role = static_cast<int>(Role::token_embd); role <= static_cast<int>(Role::ffn_exp_probs); ++role) {
    const int layer = role < static_cast<int>(Role::attn_norm) ? -1 : 17;
    for (const bool bias : {false, true}) {
      const RoleName parsed = parse_tensor_name(tensor_name(static_cast<Role>(role), layer, bias));
      CHECK(static_cast<int>(parsed.role) == role);
      CHECK(parsed.layer == layer);
      CHECK(parsed.bias == bias);
    }
  }
  for (const char* name : {"", "blk", "blk.", "blk..attn_q.weight", "blk.01.attn_q.weight", "blk.-1.attn_q.weight",
                           "blk.1.attn_q", "attn_q.weight", "blk.0.output.weight", "blk.99999999999.attn_q.weight",
                           "blk.1attn_q.weight", "blk.1.token_embd.weight", ".weight", "mm.0.weight"}) {
    INFO(name);
    CHECK(parse_tensor_name(name).role == Role::unknown);
  }
}

TEST_CASE("tensors of unknown names are kept") {
  GgufBuilder builder = tiny_llama();
  builder.tensor("mm.projector", {4}, 0, test::float_data(4, 9));
  const Bytes bytes = builder.build();
  const ModelFile file = open(bytes);
  REQUIRE(file.tensors().size() == 21);
  CHECK(file.tensors().back().role == Role::unknown);
  CHECK(file.tensors().back().name == "mm.projector");
}

TEST_CASE("other versions and alignments") {
  GgufBuilder builder = tiny_llama();
  builder.version = 2;
  builder.alignment = 256;
  builder.number("general.alignment", std::uint32_t{256});
  const Bytes bytes = builder.build();
  const ModelFile file = open(bytes);
  const TensorInfo& tensor = file.require(Role::ffn_down, 1, {64, 32});
  CHECK(tensor.offset % 256 == 0);
  Bytes data(static_cast<std::size_t>(tensor.bytes));
  file.read(tensor, 0, data);
  CHECK(data == builder.tensors.back().data);
}

TEST_CASE("tokenizer, templates and sampling") {
  GgufBuilder builder = tiny_llama();
  builder.string("tokenizer.ggml.pre", "default").string("tokenizer.chat_template", "{{ one }}");
  builder.string("tokenizer.chat_template.tool_use", "{{ two }}").number("tokenizer.ggml.add_space_prefix", false);
  builder.strings("tokenizer.ggml.merges", {"a b", "c d"}).number("tokenizer.ggml.eot_token_id", std::uint32_t{7});
  builder.number("tokenizer.ggml.padding_token_id", std::uint32_t{0xFFFFFFFF});
  builder.array("tokenizer.ggml.precompiled_charsmap", std::vector<std::uint8_t>{0, 255, 3});
  builder.number("general.sampling.temp", 0.6F).number("general.sampling.top_k", std::int32_t{20});
  const Bytes bytes = builder.build();
  const ModelFile file = open(bytes);
  const text::TokenizerSpec& spec = file.tokenizer();
  CHECK(spec.family == "llama");
  CHECK(spec.pre == "default");
  REQUIRE(spec.tokens.size() == 16);
  CHECK(spec.tokens[11] == "abcd");
  CHECK(spec.scores[5] == -5.0F);
  CHECK(spec.kinds[0] == text::TokenKind::unknown);
  CHECK(spec.kinds[1] == text::TokenKind::control);
  REQUIRE(spec.merges.size() == 2);
  CHECK(spec.merges[1] == "c d");
  CHECK(spec.charsmap == std::string("\0\xFF\3", 3));
  CHECK(spec.bos == 1);
  CHECK(spec.eot == 7);
  CHECK_FALSE(spec.pad);
  CHECK(spec.add_bos == true);
  CHECK_FALSE(spec.add_eos);
  CHECK(spec.add_space_prefix == false);
  CHECK(spec.chat_template == "{{ one }}");
  REQUIRE(spec.named_templates.size() == 1);
  CHECK(spec.named_templates[0].first == "tool_use");
  CHECK(spec.named_templates[0].second == "{{ two }}");
  REQUIRE(file.sampling().temperature);
  CHECK(*file.sampling().temperature == Approx(0.6));
  CHECK(file.sampling().top_k == 20);
  CHECK_FALSE(file.sampling().top_p);
}

TEST_CASE("metadata for people") {
  GgufBuilder builder = tiny_llama();
  builder.string("general.description", std::string("two\nlines\x1B[31m\xFF ") + std::string(500, 'x'));
  const Bytes bytes = builder.build();
  const ModelFile file = open(bytes);
  const std::span<const MetadataEntry> entries = file.metadata();
  REQUIRE(entries.size() == builder.keys.size());
  CHECK(entries[0].key == "general.architecture");
  CHECK(entries[0].type == "string");
  CHECK(entries[0].value == "llama");
  CHECK(entries[2].type == "uint32");
  CHECK(entries[2].value == "128");
  CHECK(entries[11].type == "array of 16 string");
  CHECK(entries[11].value.substr(0, 14) == "[\"<unk>\", \"<s>");
  CHECK(entries.back().value.substr(0, 31) == "two\\nlines\\x1b[31m\\xff xxxxxxxx");
  CHECK(entries.back().value.size() < 140);
}

TEST_CASE("metadata alone opens a file whose tensors are of a type that is not supported") {
  GgufBuilder builder = tiny_llama();
  builder.at("blk.0.attn_q.weight").type = 16;
  const Bytes bytes = builder.build();
  CHECK_THROWS_AS(open(bytes), Exception);
  OpenOptions options;
  options.metadata_only = true;
  const ModelFile file = ModelFile::open(ModelSource::memory(bytes), {}, options);
  CHECK(file.tensors().empty());
  CHECK(file.tokenizer().tokens.size() == 16);
  CHECK(file.hyper_parameters().block_count == 2);
}

}  // namespace
}  // namespace llminfer::format
