// A skeleton to copy: all that a new architecture needs, kept compiling by a test. What the spec's fields mean is said
// in models/decoder.h; base_spec has filled in what the file's keys say.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec example(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  DecoderSpec spec = base_spec(file, hyper, options);
  spec.pairing = backend::RopePairing::interleaved;
  spec.activation = backend::Activation::gelu_tanh;
  spec.residual_scale = 0.5F;
  for (LayerSpec& layer : spec.layers) layer.window = 64;
  return spec;
}

}  // namespace llminfer::models::arch
