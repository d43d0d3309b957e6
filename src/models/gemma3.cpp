// Gemma 3: five windowed layers, then a full one; QK norm, post norms; the windowed layers turn by their own base.
#include "models/architecture.h"

#include <cmath>

#include "models/rope.h"

namespace llminfer::models::arch {

DecoderSpec gemma3(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options, 6);
  spec.embedding_scale = std::sqrt(static_cast<float>(hyper.embedding_length));
  spec.qk_norm = true;
  spec.post_norms = true;
  spec.activation = backend::Activation::gelu_tanh;
  // The 27B model (62 layers) divides by sqrt(width / heads) instead of sqrt(head width); files do not say so.
  const bool by_width = !hyper.attention_scale && hyper.block_count == 62;
  if (by_width) {
    const int width = hyper.embedding_length / hyper.head_count(0);
    spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(width));
  }
  // Windowed layers: base 10,000 unless the file says otherwise, and never scaled (scaling is for the full ones).
  format::RopeParameters local = hyper.rope;
  local.freq_base_swa = hyper.rope.freq_base_swa.value_or(10000.0F);
  local.scaling = format::RopeScaling::none;
  for (LayerSpec& layer : spec.layers) {
    if (layer.window > 0) layer.rope = make_rope_table(local, hyper.rope.dimension_count, true, {});
  }
  return spec;
}

}  // namespace llminfer::models::arch
