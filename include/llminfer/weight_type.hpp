// The number formats that weights come in. Facts: the GGUF specification (ggml's docs/gguf.md) and its type table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {

/// Storage format of a tensor. A quantized row is a sequence of blocks; see describe().
enum class WeightType : std::uint8_t {
  as_stored,  ///< only in options: keep what the file has
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};

/// Facts of one format. `name` is GGUF's spelling ("Q4_0"); a block holds `block_size` weights in `block_bytes` bytes.
struct WeightTypeInfo {
  WeightType type;
  std::string_view name;
  std::uint32_t block_size;   ///< weights per block: 1, 32 or 256
  std::uint32_t block_bytes;  ///< bytes per block
};

/// Facts of a format; for as_stored (or a value outside the enum) name is "as_stored" and the sizes are 0.
LLMINFER_API const WeightTypeInfo& describe(WeightType type) noexcept;

}  // namespace v0
}  // namespace llminfer
