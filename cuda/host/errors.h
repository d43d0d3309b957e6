// CUDA's error codes as this library's errors.
#pragma once

#include <cuda_runtime_api.h>

#include <llminfer/backend/step.hpp>

namespace llminfer::cuda {

/// Throws out_of_memory, or device_lost for everything that a caller cannot help; `what` names the call.
void check(cudaError_t error, const char* what);

/// The same without allocation. ok for cudaSuccess.
backend::Status status_of(cudaError_t error) noexcept;

}  // namespace llminfer::cuda
