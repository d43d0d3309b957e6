// Number formats of cached keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <llminfer/export.hpp>

namespace llminfer {
inline namespace v0 {

/// Storage format of one side (K or V) of the KV cache. Quantized formats hold one block per 32 values of one head of
/// one token.
enum class KvType : std::uint8_t {
  automatic,  ///< only in options: the device's default (f16; bf16 where its attention kernel is bf16)
  f32,
  f16,
  bf16,
  q8_0,  ///< 34 bytes per 32 values
  q4_0,  ///< 18 bytes per 32 values
};

/// "f16" and so on. Never null.
LLMINFER_API const char* to_string(KvType type) noexcept;

}  // namespace v0
}  // namespace llminfer
