#include "host/step_graphs.h"

namespace llminfer::cuda {

StepGraphs::~StepGraphs() {
  static_cast<void>(engine_->enter());
  for (Entry& e : entries_) {
    if (e.ready != nullptr) static_cast<void>(cudaGraphExecDestroy(e.ready));
  }
}

StepGraphs::Entry& StepGraphs::find(const GraphKey& key) noexcept {
  ++now_;
  Entry* oldest = &entries_.front();
  for (Entry& e : entries_) {
    if (e.used != 0 && e.key == key) {
      e.used = now_;
      return e;
    }
    if (e.used < oldest->used) oldest = &e;
  }
  if (oldest->ready != nullptr) static_cast<void>(cudaGraphExecDestroy(oldest->ready));
  *oldest = {};
  oldest->key = key;
  oldest->used = now_;
  return *oldest;
}

/// Ends a recording, whatever came of it, and makes it ready to be launched.
cudaError_t StepGraphs::finish(Entry& e, cudaStream_t stream, cudaError_t made) noexcept {
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &graph);
  if (made != cudaSuccess) error = made;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&e.ready, graph, 0);
  if (error != cudaSuccess) e.ready = nullptr;
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  return error;
}

}  // namespace llminfer::cuda
