// Reading a model's hyper-parameters from its metadata, with bounds.
#pragma once

#include <string>
#include <string_view>

#include "format/hyper_parameters.h"
#include "format/metadata.h"

namespace llminfer::format {

/// `vocabulary`: number of tokens in the file's vocabulary, 0 if it has none. Throws as ModelFile::hyper_parameters.
HyperParameters read_hyper_parameters(const Metadata& metadata, std::uint64_t vocabulary);

/// GGUF's key of a neutral field name ("rms_eps"), with the architecture in front; for messages.
std::string key_of_field(std::string_view architecture, std::string_view field);

}  // namespace llminfer::format
