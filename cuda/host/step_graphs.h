// Recorded steps: a CUDA graph for each shape of step that comes again, so that all of a step's launches cost the host
// one call. Owned by a workspace, whose memory the recorded launches use.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "host/engine.h"
#include "host/step_shape.h"

namespace llminfer::cuda {

/// A step in a shape on a cache.
struct GraphKey {
  StepShape shape{};
  std::uint64_t cache = 0;  ///< CudaKvStorage::id

  friend bool operator==(const GraphKey&, const GraphKey&) = default;
};

class StepGraphs {
 public:
  explicit StepGraphs(std::shared_ptr<Engine> engine) noexcept : engine_(std::move(engine)) {}
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  /// Does what `launches()` does, a function that starts the step's work on `stream` and returns a cudaError_t: the
  /// first time by calling it (the kernels are loaded then, which may not happen while a stream is recorded), the
  /// second time by recording it, from then on by replaying. A recording that fails is given up: the launches are made
  /// one by one as before.
  template <class F>
  cudaError_t run(const GraphKey& key, cudaStream_t stream, F launches) noexcept {
    Entry& e = find(key);
    if (e.ready == nullptr && e.steps++ > 0 && !e.refused) {
      cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
      if (error == cudaSuccess) {
        const cudaError_t made = launches();
        error = finish(e, stream, made);
      }
      e.refused = e.ready == nullptr;
      if (e.refused) static_cast<void>(cudaGetLastError());  // told once, and not to later calls
    }
    return e.ready != nullptr ? cudaGraphLaunch(e.ready, stream) : launches();
  }

 private:
  struct Entry {
    GraphKey key{};
    cudaGraphExec_t ready = nullptr;
    std::uint64_t used = 0;   // 0: the entry is free
    std::uint32_t steps = 0;  // without a graph
    bool refused = false;
  };
  /// The entry of a key; a new one takes the place of the one that was used longest ago.
  Entry& find(const GraphKey& key) noexcept;
  static cudaError_t finish(Entry& entry, cudaStream_t stream, cudaError_t made) noexcept;

  std::shared_ptr<Engine> engine_;
  std::array<Entry, 32> entries_{};
  std::uint64_t now_ = 0;
};

}  // namespace llminfer::cuda
