// The GPU's own clock around work on a device's stream.
#pragma once

#include <memory>

#include "host/engine.h"
#include "host/errors.h"

namespace llminfer::cuda {

class Timer {
 public:
  /// Throws device_lost.
  explicit Timer(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {
    check(engine_->enter(), "cudaSetDevice");
    check(cudaEventCreate(&start_), "cudaEventCreate");
    const cudaError_t e = cudaEventCreate(&end_);
    if (e != cudaSuccess) static_cast<void>(cudaEventDestroy(start_));
    check(e, "cudaEventCreate");
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    static_cast<void>(cudaEventDestroy(start_));
    static_cast<void>(cudaEventDestroy(end_));
  }

  /// Of `work()`, which starts launches on the engine's stream and returns a cudaError_t. Waits for them. Throws
  /// device_lost.
  template <class F>
  double seconds_of(const F& work) {
    check(cudaEventRecord(start_, engine_->stream()), "cudaEventRecord");
    check(work(), "a launch");
    check(cudaEventRecord(end_, engine_->stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  std::shared_ptr<Engine> engine_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace llminfer::cuda
