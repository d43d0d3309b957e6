// Runs steps of a compiled graph without an engine around it: any starts, any counts, pages of its own.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <memory>
#include <vector>

#include "graph/cost.h"
#include "profile/recorder.h"

namespace llminfer::profile {

class StepRunner {
 public:
  /// Throws what the device reports. `longest`: tokens that any sequence will reach; `pages`: that each of the others
  /// has of its own.
  StepRunner(const backend::Backend& device, std::shared_ptr<const backend::Graph> graph,
             const backend::WeightReader& weights, const backend::Limits& limits, std::int32_t longest,
             std::int32_t pages = 5);

  /// One step of the sequences, an arg-max wanted of the last token of each; earlier keys and values are whatever the
  /// pages hold. All sequences share pages beyond those that there are: what is computed has no meaning. Throws what
  /// the device reports. Gives the batch's shape.
  /// `recorder` is told of the step, but for its spans, which go to `sink`; either may be null.
  graph::BatchShape run(const std::vector<graph::SequenceShape>& sequences, backend::ProfileSink* sink,
                        Recorder* recorder = nullptr);

  const backend::Graph& graph() const noexcept { return *graph_; }
  /// What the last step took.
  double seconds() const noexcept { return seconds_; }

 private:
  std::shared_ptr<const backend::Graph> graph_;
  backend::KvFormat format_;
  std::int32_t page_size_;
  std::int32_t pages_;
  double seconds_ = 0;
  std::shared_ptr<const backend::Program> program_;
  std::unique_ptr<backend::Workspace> workspace_;
  std::unique_ptr<backend::KvStorage> kv_;
};

}  // namespace llminfer::profile
