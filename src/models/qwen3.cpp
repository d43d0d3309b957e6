// Qwen 3: RMS norm on each head of q and k.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec qwen3(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options);
  spec.qk_norm = true;
  return spec;
}

}  // namespace llminfer::models::arch
