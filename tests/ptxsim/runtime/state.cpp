#include "runtime/state.h"

namespace ptxsim {

namespace runtime {

State& state() {
  static State s;
  return s;
}

cudaError_t done(cudaError_t error) {
  State& s = state();
  if (s.device.lost) s.sticky = cudaErrorLaunchFailure;
  if (s.sticky != cudaSuccess) error = s.sticky;
  if (error != cudaSuccess) s.last = error;
  return error;
}

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  auto* s = reinterpret_cast<Stream*>(stream);
  if (s != nullptr && s->capture != nullptr) {
    s->capture->push_back(std::move(work));
    return cudaSuccess;
  }
  if (state().sticky != cudaSuccess || state().device.lost) return cudaErrorLaunchFailure;
  return work();
}

}  // namespace runtime

SimulatedDevice& simulated_device() { return runtime::state().device; }

}  // namespace ptxsim
