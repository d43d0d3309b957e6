// gpt-oss: every other layer windowed, sinks, biases, experts chosen first and weighted by softmax over the chosen.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec gpt_oss(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  file.need(hyper.sliding_window, "sliding_window");
  DecoderSpec spec = base_spec(file, hyper, options, 2);
  spec.ffn_norm = format::Role::post_attn_norm;
  spec.activation = backend::Activation::swiglu_clip;
  spec.sinks = true;
  spec.moe.gating = backend::Gating::softmax_selected;
  spec.moe.normalize = false;
  return spec;
}

}  // namespace llminfer::models::arch
