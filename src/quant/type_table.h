// What the library knows of each weight format, in one table: one row a format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <llminfer/weight_type.hpp>

namespace llminfer::quant {

/// One format. Rows are `n` weights, n a multiple of info.block_size; addresses of blocks need no alignment.
struct QuantType {
  WeightTypeInfo info;
  std::uint32_t gguf_id;  ///< number of the type in a GGUF file
  /// Blocks to float32, the scalar truth: what the format means, in float32 arithmetic of a fixed order.
  void (*unpack_row)(const std::byte* blocks, float* out, std::size_t n);
  /// float32 to blocks; null where the library only reads the format. Defined for any input, NaN and infinity included.
  void (*pack_row)(const float* in, std::byte* blocks, std::size_t n);
};

/// All formats, in the order of WeightType (as_stored left out).
std::span<const QuantType> all_types() noexcept;

/// Null for as_stored and for values outside the enum.
const QuantType* find(WeightType type) noexcept;

/// Null for numbers that the library does not read.
const QuantType* find_gguf(std::uint32_t gguf_id) noexcept;

/// Bytes of a row of `n` weights; nothing when n is no multiple of the block size, when the count does not fit 64 bits,
/// or when the type is as_stored.
std::optional<std::uint64_t> try_row_bytes(WeightType type, std::uint64_t n) noexcept;

/// As try_row_bytes; throws invalid_argument naming type and count instead of returning nothing.
std::uint64_t row_bytes(WeightType type, std::uint64_t n);

}  // namespace llminfer::quant
