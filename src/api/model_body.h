// What copies of a Model share.
#pragma once

#include <llminfer/backend/backend.hpp>
#include <llminfer/model.hpp>
#include <memory>
#include <vector>

#include "core/hash.h"
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
  core::Hash128 fingerprint;
  /// Host memory: of the graph, and of Sessions (logits, the sampler's workspace).
  std::shared_ptr<core::Memory> host;
};

}  // namespace v0

namespace api {

/// kv_bytes, or the share of the device's free memory. Throws invalid_argument naming `options` and the field for a
/// share out of range or beside kv_bytes, unavailable where the device does not tell.
std::size_t kv_budget(const Device& device, const char* options, std::size_t kv_bytes, double kv_share);

/// What a pool is sized by.
struct PageBudget {
  int context = 0;           ///< of a sequence; 0: the graph's
  std::size_t kv_bytes = 0;  ///< 0: for one sequence
  int chunk = 0;             ///< most tokens of a step
  int sequences = 0;         ///< that hold pages at a time; 0: as many as kv_bytes hold with a full context
};

/// Pages of each state group: groups without a window get the same number, the others what the sequences can hold at a
/// time, if that is less. Throws invalid_argument naming an option out of range.
std::vector<std::int32_t> session_pages(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                                        const PageBudget& budget);

/// What a Model and one Session take.
MemoryPlan memory_plan(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size, int chunk,
                       const SessionOptions& options);

}  // namespace api
}  // namespace llminfer
