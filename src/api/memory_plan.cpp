#include <algorithm>
#include <limits>

#include "api/model_body.h"
#include "core/checked.h"
#include "core/fail.h"
#include "runtime/sampling/workspace.h"
#include "runtime/sequence.h"

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

/// Pages of each group for a pool. Those with a window need no more than `sequences` sequences can hold of them at a
/// time, beside the others' `pages`.
class Sizing {
 public:
  Sizing(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size, int chunk) : needs_(needs) {
    const bool any_whole = std::any_of(graph.states.begin(), graph.states.end(),
                                       [](const backend::StateGroup& s) { return s.window == 0; });
    for (const backend::StateGroup& s : graph.states) {
      most_.push_back(s.window > 0 && any_whole ? runtime::window_pages(s.window, page_size, chunk) : 0);
    }
  }

  std::vector<std::int32_t> pages(std::int64_t pages, std::int64_t sequences) const {
    std::vector<std::int32_t> out;
    for (const std::int64_t most : most_) out.push_back(static_cast<std::int32_t>(of_group(most, pages, sequences)));
    return out;
  }
  /// Saturates.
  std::uint64_t bytes(std::int64_t pages, std::int64_t sequences) const {
    constexpr double most = 1.8e19;
    double sum = 0;  // to see an overflow; the figure itself in integers
    std::uint64_t exact = 0;
    for (std::size_t g = 0; g < most_.size(); ++g) {
      const std::int64_t n = of_group(most_[g], pages, sequences);
      sum += static_cast<double>(n) * static_cast<double>(needs_.page_bytes[g]);
      exact += static_cast<std::uint64_t>(n) * needs_.page_bytes[g];
    }
    return sum < most ? exact : std::numeric_limits<std::uint64_t>::max();
  }

 private:
  /// Beside what the sequences hold, what the scheduler keeps free at an admission.
  static std::int64_t of_group(std::int64_t most, std::int64_t pages, std::int64_t sequences) {
    if (most == 0) return pages;
    const std::int64_t all = most * sequences;
    return std::min(pages, sequences == 1 ? all : all + all / 63 + 2);
  }

  const backend::MemoryNeeds& needs_;
  std::vector<std::int64_t> most_;  // per sequence; 0: as many as there are
};

}  // namespace

std::size_t kv_budget(const Device& device, const char* options, std::size_t kv_bytes, double kv_share) {
  if (!(kv_share > 0) && !(kv_share < 0)) return kv_bytes;
  if (!(kv_share > 0 && kv_share <= 1)) {
    core::fail(ErrorCode::invalid_argument, "{}::kv_share is {}, must be above 0 to 1", options, kv_share);
  }
  if (kv_bytes != 0) {
    core::fail(ErrorCode::invalid_argument, "{}::kv_share is {} and kv_bytes {}: only one may be given", options,
               kv_share, kv_bytes);
  }
  const DeviceInfo info = device.backend()->info();
  if (info.free_memory == 0) {
    core::fail(ErrorCode::unavailable, "{}::kv_share: device '{}' does not tell its free memory", options, info.kind);
  }
  return static_cast<std::size_t>(static_cast<double>(info.free_memory) * kv_share);
}

std::vector<std::int32_t> session_pages(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size,
                                        const PageBudget& budget) {
  if (budget.context < 0 || budget.context > graph.context) {
    core::fail(ErrorCode::invalid_argument, "SessionOptions::context is {}, the model serves 1 to {} (0: all)",
               budget.context, graph.context);
  }
  const int context = budget.context > 0 ? budget.context : graph.context;
  const Sizing sizing(graph, needs, page_size, budget.chunk);
  const std::int64_t whole = (std::int64_t{context} + page_size - 1) / page_size;
  if (budget.kv_bytes == 0) return sizing.pages(whole, 1);
  std::int64_t sequences = budget.sequences;
  if (sequences == 0) {  // as many as the bytes hold with a full context
    const std::uint64_t one = std::max<std::uint64_t>(1, sizing.bytes(whole, 1));
    sequences = static_cast<std::int64_t>(std::clamp<std::uint64_t>((budget.kv_bytes + one - 1) / one, 1, 1 << 20));
  }
  if (sizing.bytes(1, sequences) > budget.kv_bytes) {
    const auto page = static_cast<std::int64_t>(sizing.bytes(1, sequences));
    core::fail_amount(ErrorCode::invalid_argument, page, static_cast<std::int64_t>(budget.kv_bytes),
                      "kv_bytes is {}, a page takes {}", budget.kv_bytes, page);
  }
  std::int64_t fits = 1;
  std::int64_t too_many = std::int64_t{std::numeric_limits<std::int32_t>::max()};
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (sizing.bytes(middle, sequences) <= budget.kv_bytes ? fits : too_many) = middle;
  }
  return sizing.pages(fits, sequences);
}

MemoryPlan memory_plan(const backend::Graph& graph, const backend::MemoryNeeds& needs, int page_size, int chunk,
                       const SessionOptions& options) {
  const std::vector<std::int32_t> pages =
      session_pages(graph, needs, page_size, {options.context, options.kv_bytes, chunk, 0});
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
