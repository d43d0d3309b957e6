// Qwen 3 with experts: softmax over all, the chosen weights add up to 1.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec qwen3moe(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options);
  spec.qk_norm = true;
  return spec;
}

}  // namespace llminfer::models::arch
