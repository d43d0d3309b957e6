// Qwen 2 and 2.5: biases on q, k and v.
#include "models/architecture.h"

namespace llminfer::models::arch {

DecoderSpec qwen2(const format::ModelFile& file, const format::HyperParameters& hyper, const BuildOptions& options) {
  return base_spec(file, hyper, options);
}

}  // namespace llminfer::models::arch
