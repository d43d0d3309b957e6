// The stand-in's functions, written from cuBLAS's documentation: matrices column by column, leading dimensions, what is
// refused. Where the toolkit has cuBLAS's headers their declarations are the ones that count, so that these definitions
// compile only if they have the same types.
#if __has_include(<cublas_api.h>)
#include <cublas_api.h>
#else
#include <cuda_runtime_api.h>
#include <library_types.h>
using cublasHandle_t = struct cublasContext*;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>

#include "cublas/stand_in.h"
#include "runtime/state.h"

namespace {

using namespace ptxsim;

/// What a handle is in here.
struct Context {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // null: the library's own
  std::size_t workspace_bytes = 0;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};
Context* context(cublasHandle_t h) { return reinterpret_cast<Context*>(h); }

cublasStatus_t complain(const char* what, cublasStatus_t status) {
  simulated_cublas().complaints.emplace_back(what);
  return status;
}

std::size_t bytes_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

double value_at(const void* p, cudaDataType type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(p)[i]);
  if (type == CUDA_R_16F) return static_cast<double>(__half2float(static_cast<const __half*>(p)[i]));
  return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
}

/// A matrix of rows x columns, column by column, `ld` elements apart.
struct Matrix {
  const void* data;
  cudaDataType type;
  std::int64_t rows, columns, ld;
  bool in_memory() const {
    if (rows == 0 || columns == 0) return true;
    const auto count = static_cast<std::size_t>((columns - 1) * ld + rows);
    return runtime::state().memory.contains(reinterpret_cast<std::uint64_t>(data), count * bytes_of(type));
  }
  double at(std::int64_t row, std::int64_t column) const { return value_at(data, type, row + column * ld); }
};

/// op(A) is m x k, op(B) k x n, C m x n.
struct Work {
  Matrix a, b, c;
  bool a_transposed, b_transposed;
  float alpha, beta;
  float* out;

  void run() const {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      for (std::int64_t i = 0; i < c.rows; ++i) {
        const std::int64_t inner = a_transposed ? a.rows : a.columns;
        double sum = 0;
        for (std::int64_t l = 0; l < inner; ++l) {
          sum += (a_transposed ? a.at(l, i) : a.at(i, l)) * (b_transposed ? b.at(j, l) : b.at(l, j));
        }
        float& to = out[i + j * c.ld];
        // What stands there is not read where it counts nothing.
        to = static_cast<float>(static_cast<double>(alpha) * sum +
                                (beta == 0 ? 0.0 : static_cast<double>(beta) * static_cast<double>(to)));
      }
    }
  }
};

/// The user's memory holds anything afterwards.
void spoil(void* memory, std::size_t bytes) {
  const std::size_t n = std::min<std::size_t>(bytes, 1 << 16);
  std::memset(memory, 0x7b, n);
  std::memset(static_cast<char*>(memory) + bytes - n, 0x7b, n);
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (simulated_cublas().create_status != 0) return static_cast<cublasStatus_t>(simulated_cublas().create_status);
  *handle = reinterpret_cast<cublasHandle_t>(new Context);
  ++simulated_cublas().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete context(handle);
  --simulated_cublas().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = 130203;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  context(handle)->stream = stream;
  context(handle)->workspace = nullptr;  // another stream: the library's own workspace again
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (reinterpret_cast<std::uint64_t>(workspace) % 256 != 0) {
    return complain("a workspace that is not aligned", CUBLAS_STATUS_INVALID_VALUE);
  }
  if (!runtime::state().memory.contains(reinterpret_cast<std::uint64_t>(workspace), bytes)) {
    return complain("a workspace that is no memory of the GPU", CUBLAS_STATUS_INVALID_VALUE);
  }
  context(handle)->workspace = workspace;
  context(handle)->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  context(handle)->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

#ifndef PTXSIM_CUBLAS_WITHOUT_PRODUCT
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0) return complain("a negative size", CUBLAS_STATUS_INVALID_VALUE);
  const bool at = transa != CUBLAS_OP_N, bt = transb != CUBLAS_OP_N;
  if (lda < std::max(1, at ? k : m) || ldb < std::max(1, bt ? n : k) || ldc < std::max(1, m)) {
    return complain("a leading dimension that is too small", CUBLAS_STATUS_INVALID_VALUE);
  }
  if (alpha == nullptr || beta == nullptr) return complain("no scale", CUBLAS_STATUS_INVALID_VALUE);
  const bool known = a_type == CUDA_R_32F || a_type == CUDA_R_16F || a_type == CUDA_R_16BF;
  if (compute != CUBLAS_COMPUTE_32F || a_type != b_type || c_type != CUDA_R_32F || !known) {
    return complain("types that do not go together", CUBLAS_STATUS_NOT_SUPPORTED);
  }
  const Matrix ma{a, a_type, at ? k : m, at ? m : k, lda}, mb{b, b_type, bt ? n : k, bt ? k : n, ldb},
      mc{c, c_type, m, n, ldc};
  if (!ma.in_memory() || !mb.in_memory() || !mc.in_memory()) {
    return complain("a matrix that is no memory of the GPU", CUBLAS_STATUS_EXECUTION_FAILED);
  }
  SimulatedCublas& seen = simulated_cublas();
  const Context& h = *context(handle);
  if (seen.product_status != 0 && seen.products >= seen.well) {
    std::memset(c, 0xff, sizeof(float));
    return static_cast<cublasStatus_t>(seen.product_status);
  }
  if (seen.lose_device) {
    simulated_device().lost = true;
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  ++seen.products;
  if (h.workspace == nullptr) ++seen.in_default_workspace;
  seen.workspace = h.workspace;
  seen.workspace_bytes = h.workspace_bytes;
  seen.math_mode = h.math;
  seen.stream = h.stream;
  const Work work{
      ma, mb, mc, at, bt, *static_cast<const float*>(alpha), *static_cast<const float*>(beta), static_cast<float*>(c)};
  const cudaError_t done = runtime::enqueue(h.stream, [work, h] {
    runtime::state().behind_launch = false;
    if (h.workspace != nullptr) spoil(h.workspace, h.workspace_bytes);
    work.run();
    return cudaSuccess;
  });
  return done == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
#endif

}  // extern "C"
