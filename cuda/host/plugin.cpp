// The entry point by which an application finds the device.
#include "core/guard.h"
#include "host/cuda_backend.h"
#include "host/dense_gemm.h"

namespace {

using llminfer::backend::Plugin;

llminfer::Result<std::shared_ptr<llminfer::backend::Backend>> open_device(int index) {
  return llminfer::core::guard(
      "cuda open", [index] { return llminfer::cuda::make_cuda_backend(index, llminfer::cuda::cublas_names()); });
}

const Plugin plugin{llminfer::backend::interface_version, "cuda", &open_device};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Plugin* llminfer_backend_plugin() { return &plugin; }
