#include "host/executor.h"

#include <algorithm>
#include <chrono>

#include "device/common/reduce_outputs.h"
#include "graph/op_io.h"
#include "host/errors.h"

namespace llminfer::cuda {
namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int32_t Executor::rows(backend::ValueId id) const noexcept {
  const bool tokens = program_.graph().values[static_cast<std::size_t>(id)].rows == backend::Rows::tokens;
  return tokens ? shape_.tokens : shape_.outputs;
}

backend::Status Executor::run() noexcept {
  cudaError_t error = program_.engine().enter();
  if (error == cudaSuccess) error = space_.step.upload(batch_, shape_, program_.graph().states.size(), stream());
  if (error == cudaSuccess) error = run_all();
  if (error == cudaSuccess && !stopped_) error = fetch_outputs();
  // Whatever was started must end before the caller's memory may go.
  const cudaError_t end = cudaStreamSynchronize(stream());
  if (error == cudaSuccess) error = end;
  if (error != cudaSuccess) return status_of(error);
  if (stopped_) return {ErrorCode::cancelled, "cancelled in a step"};
  if (batch_.output_rows.empty() || wanted() == backend::none) return {};
  if (!needs_reduction()) {
    const std::size_t count = batch_.output_rows.size() * static_cast<std::size_t>(width(wanted()));
    std::copy_n(space_.logits.at<float>(0), count, outputs_.values.begin());
    return {};
  }
  if (ReducedOutputs::takes(outputs_)) {
    space_.reduced.finish(static_cast<std::int32_t>(batch_.output_rows.size()), outputs_);
    return {};
  }
  const auto columns = static_cast<std::size_t>(width(program_.graph().logits));
  for (std::size_t r = 0; r < batch_.output_rows.size(); ++r) {
    device::reduce_row({space_.logits.at<float>(0) + r * columns, columns}, r, outputs_);
  }
  return {};
}

cudaError_t Executor::run_all() noexcept {
  if (!shape_.filled) return run_ops(false);
  stopped_ = stop_.requested();
  if (stopped_) return cudaSuccess;
  return space_.graphs.run({shape_, kv_.id()}, stream(), [this] {
    prepared_ = backend::none;
    return run_ops(true);
  });
}

/// `whole`: not to be stopped half way, since it may be recorded; ops of different groups may be one launch then.
cudaError_t Executor::run_ops(bool whole) noexcept {
  const backend::Graph& graph = program_.graph();
  whole_ = whole;
  if (whole) return run_range(0, static_cast<std::int32_t>(graph.ops.size()));
  for (const backend::OpGroup& group : graph.groups) {
    stopped_ = stop_.requested();
    if (stopped_ || complete_) return cudaSuccess;
    if (const cudaError_t e = run_range(group.first, group.first + group.count); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

cudaError_t Executor::run_range(std::int32_t first, std::int32_t end) noexcept {
  const backend::Graph& graph = program_.graph();
  end_ = end;
  for (index_ = first; index_ < end_; index_ += together_) {
    together_ = 1;
    if (const cudaError_t e = run_op(); e != cudaSuccess) return e;
    // The head's product is the one that costs: leave it out when only its input is wanted.
    const backend::ValueId out = graph::io_of(graph.ops[static_cast<std::size_t>(index_ + together_ - 1)]).out;
    complete_ = shape_.hidden && out != backend::none && out == graph.hidden;
    if (complete_) return cudaSuccess;
  }
  return cudaSuccess;
}

cudaError_t Executor::run_op() noexcept {
  const backend::Op& op = program_.graph().ops[static_cast<std::size_t>(index_)];
  const std::int64_t start = profile_ != nullptr ? now_ns() : 0;
  const cudaError_t e = std::visit([&](const auto& o) { return run_one(o); }, op);
  if (e != cudaSuccess || profile_ == nullptr) return e;
  const cudaError_t end = cudaStreamSynchronize(stream());
  profile_->on_span({start, now_ns(), 0, index_, together_});
  return end;
}

/// By way of pinned memory: a copy to the caller's would wait for the GPU before the wait that follows.
cudaError_t Executor::fetch_outputs() noexcept {
  const std::size_t rows = batch_.output_rows.size();
  if (rows == 0 || wanted() == backend::none) return cudaSuccess;
  if (needs_reduction() && ReducedOutputs::takes(outputs_)) {
    return space_.reduced.start(data(wanted()), static_cast<std::int32_t>(rows), outputs_, stream());
  }
  const std::size_t bytes = rows * static_cast<std::size_t>(width(wanted())) * sizeof(float);
  return cudaMemcpyAsync(space_.logits.data(), data(wanted()), bytes, cudaMemcpyDeviceToHost, stream());
}

}  // namespace llminfer::cuda
