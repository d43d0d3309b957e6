// What a file that describes an architecture includes.
#pragma once

#include "models/decoder.h"

namespace llminfer::models {

/// Describes one architecture. Throws as base_spec does.
using Describe = DecoderSpec(const format::ModelFile& file, const format::HyperParameters& hyper,
                             const BuildOptions& options);

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): one list, read here as declarations and in registry.cpp as a table
#define LLMINFER_ARCHITECTURE(name, function) Describe function;
namespace arch {
#include "models/architectures.inc"
}
#undef LLMINFER_ARCHITECTURE

}  // namespace llminfer::models
