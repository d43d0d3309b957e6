// Files that must be refused, each with the error it must give. Also the seeds of the fuzzer.
#pragma once

#include <llminfer/error.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/gguf_builder.h"

namespace llminfer::test {

struct GgufCase {
  std::string name;
  Bytes file;
  ErrorCode code;
  std::vector<std::string> said;  ///< what the message must contain: the key or tensor, and the value
};

std::vector<GgufCase> malformed_cases();

/// What a loader does with a file: opens it, reads the hyper-parameters, asks for the tensors of a llama model with
/// their shapes, reads each. Throws as they do.
void load_like_a_model(std::span<const std::byte> file);

}  // namespace llminfer::test
