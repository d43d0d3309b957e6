// Llama 2 and 3, Mistral, SmolLM2, and Mixtral where the file has experts.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec llama(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  return base_spec(file, hyper, options);
}

}  // namespace llminfer::models::arch
