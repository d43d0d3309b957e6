// Logits kept for a model of this folder. Layout of NAME-CONTEXT.golden, little endian int32 but for the logits:
// 0x474f4c44, context, count, tokens [count], rows, vocabulary, then per row its position and float32 [vocabulary].
#pragma once

#include <cstdint>
#include <llminfer/types.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace llminfer::test {

struct GoldenRow {
  std::int32_t position = 0;
  std::vector<float> logits;
};

struct Golden {
  std::int32_t context = 0;
  std::vector<Token> tokens;
  std::int32_t vocabulary = 0;
  std::vector<GoldenRow> rows;  ///< by rising position
};

/// Throws std::runtime_error when the file is missing or cut short.
Golden read_golden(const std::string& path);

}  // namespace llminfer::test
