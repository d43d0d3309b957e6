// What a file says of its tokenizer and of sampling.
#pragma once

#include "format/metadata.h"
#include "format/model_file.h"
#include "text/tokenizer_spec.h"

namespace llminfer::format {

/// Takes the vocabulary and the merges out of `metadata`. Throws corrupt naming key and value.
text::TokenizerSpec read_tokenizer(Metadata& metadata);

SamplingDefaults read_sampling(const Metadata& metadata);

}  // namespace llminfer::format
