// Helpers of all launchers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace llminfer::cuda {

/// Blocks of `per` that cover `n`.
inline unsigned blocks_for(std::int64_t n, std::int64_t per) { return static_cast<unsigned>((n + per - 1) / per); }

}  // namespace llminfer::cuda
