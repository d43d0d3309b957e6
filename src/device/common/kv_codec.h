// Scalar truth of the cache formats: one head's key or value of one token to bytes and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <llminfer/kv_type.hpp>

namespace llminfer::device {

/// Writes `width` values as kv_row_bytes(type, width) bytes. Quantized formats hold a block per 32 values; the last one
/// is padded with zeros. `type` must not be automatic. Any alignment.
void encode_kv(KvType type, const float* in, std::int32_t width, std::byte* out) noexcept;
void decode_kv(KvType type, const std::byte* in, std::int32_t width, float* out) noexcept;

}  // namespace llminfer::device
