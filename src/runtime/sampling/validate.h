// Checks sampling options once, when a request is made.
#pragma once

#include <llminfer/sampling.hpp>

namespace llminfer::runtime {

/// Throws Exception{invalid_argument} that names the field and the value ("sampling.top_p must be within 0 .. 1, got
/// 2"). Token ids are checked against `vocabulary`; `has_bytes`: whether the text of tokens is known.
void validate(const SamplingOptions& options, int vocabulary, bool has_bytes);

}  // namespace llminfer::runtime
