// A stand-in for cuBLAS: a shared library as the real one is, that works on the simulated GPU's memory. What it has
// seen and what it is told is kept in the program that opens it. Link llminfer_simulated_cublas.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ptxsim {

struct SimulatedCublas {
  // Told by a test.
  int create_status = 0;     ///< what cublasCreate returns
  int product_status = 0;    ///< what cublasGemmEx returns, having done nothing but spoil the result
  std::uint64_t well = 0;    ///< so many products go well before one has product_status
  bool lose_device = false;  ///< a product is what the GPU dies of
  // Seen.
  int handles = 0;  ///< alive
  std::uint64_t products = 0;
  std::uint64_t in_default_workspace = 0;  ///< of the products: memory that the library would take for itself
  const void* workspace = nullptr;         ///< of the last product
  std::uint64_t workspace_bytes = 0;
  int math_mode = -1;                     ///< of the last product
  cudaStream_t stream = nullptr;          ///< of the last product
  std::vector<std::string> complaints{};  ///< misuse that its documentation names
};

/// Of this process. One thread at a time.
SimulatedCublas& simulated_cublas();

/// The files: whole; without cublasGemmEx.
const char* stand_in_cublas();
const char* incomplete_cublas();

}  // namespace ptxsim
