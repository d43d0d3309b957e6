#include "host/engine.h"

#include <utility>

#include "core/fail.h"
#include "host/errors.h"
#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

Engine::Engine(int index, std::vector<std::string> cublas) : gemm(std::move(cublas)), index_(index) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess) core::fail(ErrorCode::unavailable, "no CUDA device: {}", cudaGetErrorString(found));
  if (index < 0 || index >= count) core::fail(ErrorCode::not_found, "CUDA device {}: there are {}", index, count);
  check(enter(), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  if (properties.major < 8) {
    core::fail(ErrorCode::unavailable, "CUDA device {}: compute capability {}.{}, at least 8.0 is needed", index,
               properties.major, properties.minor);
  }
  name_ = properties.name;
  isa_ = fmt::format("sm_{}{}", properties.major, properties.minor);
  total_memory_ = properties.totalGlobalMem;
  multiprocessors_ = properties.multiProcessorCount;
  int clusters = 0;
  check(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, index), "cudaDeviceGetAttribute");
  // Of GPUs of 12.x it is said that not all take clusters of several blocks, and none was there to try.
  if (clusters != 0 && properties.major >= 9 && properties.major < 12) most_of_cluster_ = most_of_any_cluster;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Engine::~Engine() {
  // While the process ends, the driver may have gone before; then so has the library's state.
  if (enter() == cudaSuccess) {
    gemm.close();
  } else {
    gemm.forget();
  }
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Memory::Memory(std::shared_ptr<Engine> engine, Kind kind, std::uint64_t bytes)
    : engine_(std::move(engine)), kind_(kind), size_(bytes) {
  if (bytes == 0) return;
  check(engine_->enter(), "cudaSetDevice");
  void* p = nullptr;
  const cudaError_t error = kind == Kind::device ? cudaMalloc(&p, bytes) : cudaMallocHost(&p, bytes);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // an allocation that failed is no reason for later calls to fail
    if (error == cudaErrorMemoryAllocation) {
      core::fail_amount(ErrorCode::out_of_memory, static_cast<std::int64_t>(bytes), 0, "{} bytes of {} memory", bytes,
                        kind == Kind::device ? "GPU" : "pinned");
    }
    check(error, "cudaMalloc");
  }
  data_ = static_cast<std::uint8_t*>(p);
  engine_->bytes += bytes;
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  static_cast<void>(engine_->enter());
  static_cast<void>(kind_ == Kind::device ? cudaFree(data_) : cudaFreeHost(data_));
  engine_->bytes -= size_;
}

void Memory::swap(Memory& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

}  // namespace llminfer::cuda
