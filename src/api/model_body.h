// What copies of a Model share.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <llminfer/model.hpp>
#include <memory>
#include <vector>

#include "core/memory.h"

namespace llminfer {
inline namespace v0 {

/// Immutable once loaded.
class Model::Body {
 public:
  Body(Device device_in, Tokenizer tokenizer_in) : device(std::move(device_in)), tokenizer(std::move(tokenizer_in)) {}

  Device device;
  Tokenizer tokenizer;
  ModelInfo info;
  std::shared_ptr<const backend::Graph> graph;
  std::shared_ptr<const backend::Program> program;
  backend::Limits limits;
  backend::KvFormat format;
  backend::MemoryNeeds needs;
  int page_size = 0;
  /// Host memory: of the graph, and of Sessions (logits, the sampler's workspace).
  std::shared_ptr<core::Memory> host;
};

}  // namespace v0

namespace api {

/// Pages of each state group for a session; throws invalid_argument naming an option out of range.
std::vector<std::int32_t> session_pages(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                                        const SessionOptions& options);

/// What a Model and one Session take.
MemoryPlan memory_plan(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                       const SessionOptions& options);

}  // namespace api
}  // namespace llminfer
