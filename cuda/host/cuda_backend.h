// The CUDA device.
#pragma once

#include <llminfer/backend/backend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace llminfer::cuda {

/// `cublas`: what to open for dense products, see DenseGemm; empty: nothing. Throws not_found (no such device),
/// unavailable (no driver, a GPU older than sm_80), device_lost.
std::shared_ptr<backend::Backend> make_cuda_backend(int index, std::vector<std::string> cublas = {});

}  // namespace llminfer::cuda
