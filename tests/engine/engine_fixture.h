// Models for engine tests: a tiny one made in memory, and a real one where it is there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <llminfer/llminfer.hpp>
#include <optional>
#include <vector>

#include "support/gguf_builder.h"

namespace llminfer::tests {

/// The bytes of the tiny model, made once.
inline const test::Bytes& tiny_bytes() {
  static const test::Bytes bytes = test::tiny_llama().build();
  return bytes;
}

inline Device cpu(int threads = 2, const char* isa = "auto") {
  CpuOptions options;
  options.threads = threads;
  options.isa = isa;
  return Device::cpu(options).value();
}

inline Model tiny_model(Device device, LoadOptions options = {}) {
  options.devices = {std::move(device)};
  return Model::open(ModelSource::memory(tiny_bytes()), options).value();
}

/// SmolLM2 if the cache of models has it.
inline std::optional<std::filesystem::path> smollm2() {
  const char* folder = std::getenv("LLMINFER_MODELS");
  if (folder == nullptr || LLMINFER_TESTS_TINY != 0) return {};
  const std::filesystem::path file = std::filesystem::path(folder) / "smollm2-135m-q4_1.gguf";
  if (!std::filesystem::exists(file)) return {};
  return file;
}

/// `count` ids of a vocabulary, varied and the same every time.
inline std::vector<Token> some_tokens(int count, int vocabulary, std::uint32_t seed = 1) {
  std::vector<Token> out;
  std::uint32_t x = seed * 2654435761U + 1;
  for (int i = 0; i < count; ++i) {
    x = x * 1664525U + 1013904223U;
    out.push_back(static_cast<Token>((x >> 8) % static_cast<std::uint32_t>(vocabulary)));
  }
  return out;
}

}  // namespace llminfer::tests
