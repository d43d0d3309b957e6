// What architectures assume where a file is silent.
#include <cmath>
#include <string>

#include "catch.h"
#include "models/architecture.h"
#include "models/registry.h"
#include "support/gguf_builder.h"

namespace llminfer::models {
namespace {

using test::Bytes;
using test::GgufBuilder;

/// Keys of the small model under another architecture's name. Its tensors do not fit: for descriptions only.
GgufBuilder keys_of(const std::string& architecture) {
  GgufBuilder builder = test::tiny_llama();
  for (test::GgufKey& key : builder.keys) {
    if (key.name.rfind("llama.", 0) == 0) key.name = architecture + key.name.substr(5);
  }
  builder.string("general.architecture", architecture);
  return builder;
}

DecoderSpec describe_by(Describe* describe, const GgufBuilder& builder, int context = 0) {
  const Bytes bytes = builder.build();
  const format::ModelFile file = format::ModelFile::open(ModelSource::memory(bytes));
  BuildOptions options;
  options.context = context;
  return describe(file, file.hyper_parameters(), options);
}

Error error_by(Describe* describe, const GgufBuilder& builder) {
  try {
    describe_by(describe, builder);
  } catch (const Exception& e) {
    return e.error();
  }
  FAIL("described without an error");
  return {};
}

}  // namespace

TEST_CASE("architectures: an unknown one is an error that lists those known") {
  const Bytes bytes = keys_of("nonesuch").build();
  const format::ModelFile file = format::ModelFile::open(ModelSource::memory(bytes));
  try {
    build_model(file, file.hyper_parameters(), {});
    FAIL("built");
  } catch (const Exception& e) {
    CHECK(e.error().code == ErrorCode::unsupported_architecture);
    CHECK(e.error().message.find("nonesuch") != std::string::npos);
    for (const std::string_view name : architecture_names()) {
      CHECK(knows(name));
      CHECK(e.error().message.find(name) != std::string::npos);
    }
  }
  CHECK_FALSE(knows("nonesuch"));
  CHECK_FALSE(knows(""));
}

TEST_CASE("architectures: rms epsilon is required") {
  GgufBuilder builder = keys_of("llama");
  builder.without("llama.attention.layer_norm_rms_epsilon");
  const Error error = error_by(arch::llama, builder);
  CHECK(error.code == ErrorCode::corrupt);
  CHECK(error.message.find("llama.attention.layer_norm_rms_epsilon") != std::string::npos);
}

TEST_CASE("llama: plain, or with experts as wide as the feed-forward part") {
  DecoderSpec spec = describe_by(arch::llama, keys_of("llama"));
  CHECK(spec.pairing == backend::RopePairing::interleaved);
  REQUIRE(spec.layers.size() == 2);
  CHECK(spec.layers[1].window == 0);
  CHECK_FALSE(spec.layers[1].moe);
  CHECK(spec.attention_scale == 0.0F);
  GgufBuilder builder = keys_of("llama");
  builder.number("llama.expert_count", std::uint32_t{8}).number("llama.expert_used_count", std::uint32_t{2});
  builder.number("llama.expert_weights_scale", 0.0F);
  spec = describe_by(arch::llama, builder);
  CHECK(spec.layers[1].moe);
  CHECK(spec.moe.experts == 8);
  CHECK(spec.moe.used == 2);
  CHECK(spec.moe.width == 64);
  CHECK(spec.moe.normalize);
  CHECK(spec.moe.scale == 1.0F);
  CHECK(spec.moe.gating == backend::Gating::softmax);
}

TEST_CASE("qwen3moe: without their width the experts share the feed-forward width") {
  GgufBuilder builder = keys_of("qwen3moe");
  builder.number("qwen3moe.expert_count", std::uint32_t{8}).number("qwen3moe.expert_used_count", std::uint32_t{4});
  DecoderSpec spec = describe_by(arch::qwen3moe, builder);
  CHECK(spec.pairing == backend::RopePairing::half);
  CHECK(spec.qk_norm);
  CHECK(spec.moe.width == 16);
  CHECK(spec.moe.normalize);
  builder.number("qwen3moe.expert_feed_forward_length", std::uint32_t{24});
  CHECK(describe_by(arch::qwen3moe, builder).moe.width == 24);
}

TEST_CASE("gemma2: window and caps of the published models") {
  DecoderSpec spec = describe_by(arch::gemma2, keys_of("gemma2"));
  CHECK(spec.layers[0].window == 4096);
  CHECK(spec.layers[1].window == 0);
  CHECK(spec.attention_cap == 50.0F);
  CHECK(spec.logit_cap == 30.0F);
  CHECK(spec.embedding_scale == Approx(std::sqrt(32.0)));
  CHECK(spec.attention_scale == 0.0F);
  GgufBuilder builder = keys_of("gemma2");
  builder.number("gemma2.attention.sliding_window", std::uint32_t{64}).number("gemma2.attn_logit_softcapping", 20.0F);
  builder.number("gemma2.final_logit_softcapping", 10.0F).number("gemma2.block_count", std::uint32_t{46});
  spec = describe_by(arch::gemma2, builder);
  CHECK(spec.layers[44].window == 64);
  CHECK(spec.attention_cap == 20.0F);
  CHECK(spec.logit_cap == 10.0F);
  CHECK(spec.attention_scale == Approx(1 / std::sqrt(32.0 / 4)));  // the 27B model
}

TEST_CASE("gemma3: five windowed layers to one full, which alone is scaled") {
  GgufBuilder builder = keys_of("gemma3");
  builder.number("gemma3.block_count", std::uint32_t{12}).number("gemma3.attention.sliding_window", std::uint32_t{512});
  builder.number("gemma3.rope.freq_base", 1e6F).string("gemma3.rope.scaling.type", "linear");
  builder.number("gemma3.rope.scaling.factor", 8.0F);
  DecoderSpec spec = describe_by(arch::gemma3, builder);
  CHECK(spec.attention_cap == 0.0F);
  CHECK(spec.logit_cap == 0.0F);
  for (int l = 0; l < 12; ++l) {
    const LayerSpec& layer = spec.layers[static_cast<std::size_t>(l)];
    const bool full = l == 5 || l == 11;
    INFO("layer " << l);
    CHECK(layer.window == (full ? 0 : 512));
    CHECK(layer.rope.inverse_frequency[0] == Approx(full ? 1.0 / 8 : 1.0));
    CHECK(layer.rope.inverse_frequency[1] == Approx(std::pow(full ? 1e6 : 1e4, -0.25) / (full ? 8 : 1)));
  }
  SECTION("a pattern in the file") {
    builder.number("gemma3.attention.sliding_window_pattern", std::uint32_t{3});
    spec = describe_by(arch::gemma3, builder);
    CHECK(spec.layers[2].window == 0);
    CHECK(spec.layers[5].window == 0);
    CHECK(spec.layers[4].window == 512);
  }
  SECTION("no window: all layers are full") {
    builder.without("gemma3.attention.sliding_window");
    spec = describe_by(arch::gemma3, builder);
    CHECK(spec.layers[0].window == 0);
    CHECK(spec.layers[0].rope.inverse_frequency[0] == Approx(1.0 / 8));
  }
}

TEST_CASE("phi3: a window in the file is not used; factors by context") {
  GgufBuilder builder = keys_of("phi3");
  builder.number("phi3.attention.sliding_window", std::uint32_t{16});
  builder.number("phi3.rope.scaling.original_context_length", std::uint32_t{64});
  const auto factors = [](float factor) {
    Bytes bytes;
    for (int i = 0; i < 4; ++i) test::put(bytes, factor);
    return bytes;
  };
  builder.tensor("rope_factors_long.weight", {4}, 0, factors(4));
  builder.tensor("rope_factors_short.weight", {4}, 0, factors(2));
  CHECK(describe_by(arch::phi3, builder).layers[0].window == 0);
  CHECK(describe_by(arch::phi3, builder).layers[0].rope.inverse_frequency[0] == 0.25F);  // 128 trained
  CHECK(describe_by(arch::phi3, builder, 65).layers[0].rope.inverse_frequency[0] == 0.25F);
  CHECK(describe_by(arch::phi3, builder, 64).layers[0].rope.inverse_frequency[0] == 0.5F);
}

TEST_CASE("gpt-oss: the window is required, routing is fixed") {
  GgufBuilder builder = keys_of("gpt-oss");
  builder.number("gpt-oss.expert_count", std::uint32_t{8}).number("gpt-oss.expert_used_count", std::uint32_t{4});
  const Error error = error_by(arch::gpt_oss, builder);
  CHECK(error.code == ErrorCode::corrupt);
  CHECK(error.message.find("gpt-oss.attention.sliding_window") != std::string::npos);
  builder.number("gpt-oss.attention.sliding_window", std::uint32_t{128});
  const DecoderSpec spec = describe_by(arch::gpt_oss, builder);
  CHECK(spec.layers[0].window == 128);
  CHECK(spec.layers[1].window == 0);
  CHECK(spec.sinks);
  CHECK(spec.moe.gating == backend::Gating::softmax_selected);
  CHECK_FALSE(spec.moe.normalize);
}

}  // namespace llminfer::models
