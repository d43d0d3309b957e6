// Gemma 2: every other layer windowed, post norms, soft caps. The norms' added 1 is in the file's weights. The first
// files left window and caps out: all published sizes have the same.
#include "models/architecture.h"

#include <cmath>

namespace llminfer::models::arch {

DecoderSpec gemma2(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  format::HyperParameters windowed = hyper;
  if (!hyper.sliding_window) windowed.sliding_window = 4096;
  DecoderSpec spec = base_spec(file, windowed, options, 2);
  spec.embedding_scale = std::sqrt(static_cast<float>(hyper.embedding_length));
  spec.post_norms = true;
  spec.attention_cap = hyper.attn_logit_softcap.value_or(50.0F);
  spec.logit_cap = hyper.final_logit_softcap.value_or(30.0F);
  spec.activation = backend::Activation::gelu_tanh;
  // The 27B model (46 layers) divides by sqrt(width / heads) instead of sqrt(head width); files do not say so.
  const bool by_width = !hyper.attention_scale && hyper.block_count == 46;
  if (by_width) {
    const int width = hyper.embedding_length / hyper.head_count(0);
    spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(width));
  }
  return spec;
}

}  // namespace llminfer::models::arch
