// Phi 3 and 4: fused q-k-v and gate-up, LongRoPE. The window that some files state is not applied: converters write it
// for models that were trained without it.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec phi3(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options);
  for (LayerSpec& layer : spec.layers) layer.window = 0;
  return spec;
}

}  // namespace llminfer::models::arch
