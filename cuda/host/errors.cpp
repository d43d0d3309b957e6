#include "host/errors.h"

#include "core/fail.h"

namespace llminfer::cuda {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_lost;
  core::fail(code, "{}: {}", what, cudaGetErrorString(error));
}

backend::Status status_of(cudaError_t error) noexcept {
  if (error == cudaSuccess) return {};
  if (error == cudaErrorMemoryAllocation) return {ErrorCode::out_of_memory, "the GPU is out of memory"};
  if (error == cudaErrorInvalidValue) return {ErrorCode::unsupported_type, "a kernel refused the step's shape"};
  return {ErrorCode::device_lost, "the GPU failed; what was on it is lost"};
}

}  // namespace llminfer::cuda
