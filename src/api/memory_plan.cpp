#include <algorithm>
#include <limits>

#include "api/model_body.h"
#include "core/checked.h"
#include "core/fail.h"
#include "runtime/sampling/workspace.h"

namespace llminfer::api {
namespace {

/// Host bytes of a Session: a row of logits and the sampler's workspace.
std::uint64_t host_bytes(std::int32_t vocabulary) {
  return static_cast<std::uint64_t>(vocabulary) * sizeof(float) + runtime::SamplerWorkspace::bytes(vocabulary);
}

std::uint64_t bytes_per_token(const backend::MemoryNeeds& needs, int page_size) {
  std::uint64_t sum = 0;
  for (const std::uint64_t page : needs.page_bytes) sum += page / static_cast<std::uint64_t>(page_size);
  return sum;
}

}  // namespace

std::vector<std::int32_t> session_pages(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                                        const SessionOptions& options) {
  if (options.context < 0 || options.context > graph.context) {
    core::fail(ErrorCode::invalid_argument, "SessionOptions::context is {}, the model serves 1 to {} (0: all)",
               options.context, graph.context);
  }
  const int context = options.context > 0 ? options.context : graph.context;
  std::int64_t pages = (std::int64_t{context} + page_size - 1) / page_size;
  if (options.kv_bytes > 0) {
    const std::uint64_t page_of_all_groups = bytes_per_token(needs, page_size) * static_cast<std::uint64_t>(page_size);
    const std::uint64_t fit = options.kv_bytes / std::max<std::uint64_t>(1, page_of_all_groups);
    if (fit == 0) {
      core::fail_amount(ErrorCode::invalid_argument, static_cast<std::int64_t>(page_of_all_groups),
                        static_cast<std::int64_t>(options.kv_bytes), "SessionOptions::kv_bytes is {}, a page takes {}",
                        options.kv_bytes, page_of_all_groups);
    }
    pages = static_cast<std::int64_t>(std::min<std::uint64_t>(fit, std::numeric_limits<std::int32_t>::max()));
  }
  return std::vector<std::int32_t>(graph.states.size(), static_cast<std::int32_t>(pages));
}

MemoryPlan memory_plan(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                       const SessionOptions& options) {
  const std::vector<std::int32_t> pages = session_pages(graph, needs, page_size, options);
  MemoryPlan plan;
  plan.weights = needs.weights;
  plan.activations = core::add_or_fail(needs.workspace, host_bytes(graph.vocabulary), "activation bytes");
  plan.kv_per_token = bytes_per_token(needs, page_size);
  for (std::size_t g = 0; g < pages.size(); ++g) {
    const std::uint64_t group =
        core::mul_or_fail(needs.page_bytes[g], static_cast<std::uint64_t>(pages[g]), "KV bytes");
    plan.kv = core::add_or_fail(plan.kv, group, "KV bytes");
  }
  return plan;
}

}  // namespace llminfer::api
