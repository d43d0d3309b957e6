// Qwen 3 with experts: softmax over all, the chosen weights add up to 1.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec qwen3moe(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options);
  spec.qk_norm = true;
  // Files without the experts' width state the width of all the chosen together.
  const bool derive = !hyper.experts.feed_forward_length && hyper.experts.used > 0;
  if (derive) spec.moe.width = hyper.feed_forward_length(0) / hyper.experts.used;
  return spec;
}

}  // namespace llminfer::models::arch
