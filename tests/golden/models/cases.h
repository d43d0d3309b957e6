// The tiny models and how near to llama.cpp's logits a device must come.
#pragma once

#include <string>

#include "golden_file.h"

namespace llminfer::test {

struct Case {
  const char* model;
  int context;
  double tolerance;  // of a logit; the logits' standard deviation is about 3
  bool quantized;    // some weights in blocks of integers: the cpu device rounds activations there
};

// llama.cpp computes in float32, Gemma's GELU from a table of float16.
inline constexpr double exact = 1e-4;
inline constexpr double gelu_table = 1e-2;
inline constexpr Case cases[] = {
    {"llama", 256, exact, false},        {"llama-biases", 256, exact, false}, {"llama3-factors", 256, exact, false},
    {"llama-linear", 256, exact, false}, {"llama-yarn", 256, exact, false},   {"mixtral", 256, exact, true},
    {"llama-quants", 256, exact, true},  {"qwen2", 256, exact, false},        {"qwen3", 256, exact, false},
    {"qwen3moe", 256, exact, true},      {"gemma2", 256, gelu_table, false},  {"gemma3", 256, gelu_table, true},
    {"phi3", 256, exact, false},         {"phi3", 512, exact, false},         {"gpt-oss", 256, exact, true},
};

inline std::string path_of(const std::string& file) { return std::string(LLMINFER_TINY_MODELS) + "/" + file; }

inline Golden golden_of(const Case& c) {
  return read_golden(path_of(std::string(c.model) + "-" + std::to_string(c.context) + ".golden"));
}

}  // namespace llminfer::test
