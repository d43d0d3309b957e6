// Small types that several public headers share.
#pragma once

#include <cstdint>

namespace llminfer {
inline namespace v0 {

/// Index into a model's vocabulary. Valid ids are 0 .. vocabulary size - 1.
using Token = std::int32_t;

}  // namespace v0
}  // namespace llminfer
