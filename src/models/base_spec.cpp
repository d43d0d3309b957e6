// Hyper-parameters to a DecoderSpec.
#include <cmath>
#include <cstring>

#include "core/fail.h"
#include "models/decoder.h"
#include "models/rope.h"
#include "quant/type_table.h"

namespace llminfer::models {
namespace {

using format::HyperParameters;
using format::ModelFile;
using format::Role;

/// Divisors of RoPE frequencies, read from the file: llama3's, or LongRoPE's for the context asked for.
std::vector<float> rope_divisors(const ModelFile& file, const HyperParameters& hyper, int context) {
  const format::TensorInfo* tensor = file.find(Role::rope_freqs);
  if (tensor == nullptr) {
    const bool is_long = context > hyper.rope.original_context_length;
    tensor = file.find(is_long ? Role::rope_factors_long : Role::rope_factors_short);
  }
  if (tensor == nullptr) return {};
  const quant::QuantType* type = quant::find(tensor->type);
  constexpr std::uint64_t most = 65536;
  if (type == nullptr || tensor->elements() > most) {
    core::fail(ErrorCode::corrupt, "tensor '{}' has {} values of RoPE factors", tensor->name, tensor->elements());
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor->bytes));
  file.read(*tensor, 0, bytes);
  std::vector<float> out(static_cast<std::size_t>(tensor->elements()));
  type->unpack_row(bytes.data(), out.data(), out.size());
  return out;
}

MoeSpec moe_of(const HyperParameters& hyper) {
  MoeSpec moe;
  moe.experts = hyper.experts.count;
  moe.used = hyper.experts.used;
  moe.width = hyper.experts.feed_forward_length.value_or(hyper.block_count > 0 ? hyper.feed_forward_length(0) : 0);
  moe.scale = hyper.experts.weights_scale.value_or(1.0F);
  if (moe.scale == 0) moe.scale = 1.0F;  // older converters write 0 for "none"
  moe.normalize = hyper.experts.weights_norm.value_or(true);
  switch (hyper.experts.gating.value_or(format::ExpertGating::softmax)) {
    case format::ExpertGating::softmax:
      moe.gating = backend::Gating::softmax;
      break;
    case format::ExpertGating::sigmoid:
      moe.gating = backend::Gating::sigmoid;
      break;
    case format::ExpertGating::softmax_of_chosen:
      moe.gating = backend::Gating::softmax_selected;
      break;
  }
  return moe;
}

}  // namespace

DecoderSpec base_spec(const ModelFile& file, const HyperParameters& hyper, const BuildOptions& options,
                      int window_period) {
  DecoderSpec spec;
  spec.eps = file.need(hyper.rms_eps, "rms_eps");
  spec.pairing = hyper.rope.pairing == format::RopePairing::interleaved ? backend::RopePairing::interleaved
                                                                        : backend::RopePairing::half;
  spec.embedding_scale = hyper.embedding_scale.value_or(1.0F);
  spec.attention_scale = hyper.attention_scale.value_or(0.0F);
  spec.attention_cap = hyper.attn_logit_softcap.value_or(0.0F);
  spec.logit_cap = hyper.final_logit_softcap.value_or(0.0F);
  spec.residual_scale = hyper.residual_scale.value_or(1.0F);
  spec.logit_scale = hyper.logit_scale.value_or(1.0F);
  spec.moe = moe_of(hyper);

  const int context = options.context > 0 ? options.context : hyper.context_length;
  const std::vector<float> divisors = rope_divisors(file, hyper, context);
  spec.layers.reserve(static_cast<std::size_t>(hyper.block_count));
  for (int l = 0; l < hyper.block_count; ++l) {
    const bool windowed = hyper.windowed(l, window_period);
    LayerSpec layer;
    layer.heads = hyper.head_count(l);
    layer.heads_kv = hyper.head_count_kv(l);
    layer.k_width = windowed ? hyper.key_length_swa.value_or(hyper.key_length) : hyper.key_length;
    layer.v_width = windowed ? hyper.value_length_swa.value_or(hyper.value_length) : hyper.value_length;
    layer.window = windowed ? hyper.sliding_window.value_or(0) : 0;
    layer.feed_forward = hyper.feed_forward_length(l);
    layer.moe = spec.moe.experts > 0 && l >= hyper.experts.leading_dense_blocks.value_or(0);
    const int dimensions =
        windowed ? hyper.rope.dimension_count_swa.value_or(hyper.rope.dimension_count) : hyper.rope.dimension_count;
    layer.rope = make_rope_table(hyper.rope, dimensions, windowed, divisors);
    spec.layers.push_back(std::move(layer));
  }
  return spec;
}

}  // namespace llminfer::models
