// Streams, events and graphs. Work is done when it is asked for: one queue, in order.
#include <chrono>

#include "runtime/state.h"

using namespace ptxsim;           // NOLINT(google-build-using-namespace): C functions
using namespace ptxsim::runtime;  // NOLINT(google-build-using-namespace)

namespace {

struct Event {
  std::chrono::steady_clock::time_point at{};
  bool recorded = false;
};

Stream* stream_of(cudaStream_t s) { return reinterpret_cast<Stream*>(s); }
Event* event_of(cudaEvent_t e) { return reinterpret_cast<Event*>(e); }
Graph* graph_of(cudaGraph_t g) { return reinterpret_cast<Graph*>(g); }
Graph* graph_of(cudaGraphExec_t g) { return reinterpret_cast<Graph*>(g); }

/// Waiting is not allowed while a stream is captured.
cudaError_t wait(cudaStream_t s) {
  ++state().device.calls.blocking;
  if (s != nullptr && stream_of(s)->capture != nullptr) return done(cudaErrorStreamCaptureUnsupported);
  return done(cudaSuccess);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  *out = reinterpret_cast<cudaStream_t>(new Stream);
  return done(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  delete stream_of(s);
  return done(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return wait(s); }
cudaError_t cudaDeviceSynchronize() { return wait(nullptr); }
cudaError_t cudaStreamQuery(cudaStream_t) { return done(cudaSuccess); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return done(cudaSuccess); }

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (s == nullptr || stream_of(s)->capture != nullptr) return done(cudaErrorIllegalState);
  stream_of(s)->capture = new std::vector<std::function<cudaError_t()>>;
  return done(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* out) {
  if (s == nullptr || stream_of(s)->capture == nullptr) return done(cudaErrorIllegalState);
  auto graph = std::make_unique<Graph>();
  graph->nodes = std::move(*stream_of(s)->capture);
  delete stream_of(s)->capture;
  stream_of(s)->capture = nullptr;
  *out = reinterpret_cast<cudaGraph_t>(graph.release());
  return done(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* out) {
  const bool capturing = s != nullptr && stream_of(s)->capture != nullptr;
  *out = capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return done(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long) {
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_of(g)));
  return done(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
  const std::lock_guard lock(state().mutex);
  ++state().device.calls.graph_launches;
  for (const auto& node : graph_of(g)->nodes) {
    if (const cudaError_t e = enqueue(s, node); e != cudaSuccess) return done(e);
  }
  return done(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  delete graph_of(g);
  return done(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) {
  delete graph_of(g);
  return done(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  *out = reinterpret_cast<cudaEvent_t>(new Event);
  return done(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete event_of(e);
  return done(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return done(enqueue(s, [e] {
    event_of(e)->at = std::chrono::steady_clock::now();
    event_of(e)->recorded = true;
    return cudaSuccess;
  }));
}
cudaError_t cudaEventQuery(cudaEvent_t) { return done(cudaSuccess); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return wait(nullptr); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (!event_of(a)->recorded || !event_of(b)->recorded) return done(cudaErrorInvalidResourceHandle);
  *ms = std::chrono::duration<float, std::milli>(event_of(b)->at - event_of(a)->at).count();
  return done(cudaSuccess);
}

}  // extern "C"
