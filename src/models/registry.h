// Architectures by name.
#pragma once

#include <string_view>
#include <vector>

#include "models/decoder.h"

namespace llminfer::models {

/// Throws unsupported_architecture naming it and those that are known, unless build_model knows the name.
void require_known(std::string_view architecture);

/// Builds the graph of a file by its architecture. Throws as require_known.
ModelGraph build_model(const format::ModelFile& file, const format::HyperParameters& hyper,
                       const BuildOptions& options);

/// Whether build_model knows the name.
bool knows(std::string_view architecture) noexcept;

/// Names of all architectures, in the order of the list.
std::vector<std::string_view> architecture_names();

}  // namespace llminfer::models
