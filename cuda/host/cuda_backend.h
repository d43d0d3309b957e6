// The CUDA device.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <memory>

namespace llminfer::cuda {

/// Throws not_found (no such device), unavailable (no driver, a GPU older than sm_80), device_lost.
std::shared_ptr<backend::Backend> make_cuda_backend(int index);

}  // namespace llminfer::cuda
