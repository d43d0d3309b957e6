#include "device/sim/sim_program.h"

#include <algorithm>
#include <vector>

#include "core/fail.h"
#include "core/guard.h"
#include "device/common/batch_check.h"
#include "device/common/reduce_outputs.h"
#include "graph/check.h"
#include "graph/cost.h"

namespace llminfer::device::sim {
namespace {

using backend::OutputKind;
using backend::Status;

/// Numbers of pages, and what a step over them costs. The totals are scratch of the step.
class SimStorage final : public backend::KvStorage {
 public:
  SimStorage(const SimDevice& device, const backend::Graph& graph, backend::KvFormat format,
             std::span<const std::int32_t> pages)
      : pages_(pages.begin(), pages.end()), roofline_(device.description, graph, format), totals_(graph) {
    for (const backend::StateGroup& group : graph.states) {
      bytes_.push_back(sim::page_bytes(group, format, device.description.page_size));
    }
  }

  std::uint64_t page_bytes(std::int32_t group) const noexcept override {
    return bytes_[static_cast<std::size_t>(group)];
  }
  Status copy_page(std::int32_t group, std::int32_t from, std::int32_t to) noexcept override {
    return has(group, from) && has(group, to) ? Status{} : Status{ErrorCode::invalid_argument, "no such page"};
  }
  // Contents are zeros, whatever was written.
  Status read_page(std::int32_t group, std::int32_t page, std::span<std::byte> out) const noexcept override {
    if (!has(group, page) || out.size() != page_bytes(group)) return {ErrorCode::invalid_argument, "no such page"};
    std::fill(out.begin(), out.end(), std::byte{0});
    return {};
  }
  Status write_page(std::int32_t group, std::int32_t page, std::span<const std::byte> in) noexcept override {
    if (!has(group, page) || in.size() != page_bytes(group)) return {ErrorCode::invalid_argument, "no such page"};
    return {};
  }
  const char* layout() const noexcept override { return "sim-1"; }

  std::span<const std::int32_t> pages() const noexcept { return pages_; }
  std::int64_t step_ns(const backend::StepBatch& batch) noexcept {
    totals_.clear();
    for (const backend::SequenceRange& range : batch.sequences) totals_.add({range.start, range.count});
    totals_.outputs = batch.output_rows.size();
    return roofline_.step_ns(totals_);
  }

 private:
  bool has(std::int32_t group, std::int32_t page) const noexcept {
    return group >= 0 && static_cast<std::size_t>(group) < pages_.size() && page >= 0 &&
           page < pages_[static_cast<std::size_t>(group)];
  }

  std::vector<std::int32_t> pages_;
  std::vector<std::uint64_t> bytes_;
  Roofline roofline_;
  graph::BatchTotals totals_;
};

class SimWorkspace final : public backend::Workspace {
 public:
  std::vector<float> row;  ///< of logits, for what is reduced from them
};

/// A bijection of 64 bits that spreads every bit over all of them (the finalizer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::int32_t hashed(std::uint64_t seed, std::int32_t token, std::int32_t position, std::int32_t vocabulary) noexcept {
  const auto place =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) << 32) | static_cast<std::uint32_t>(position);
  const std::uint64_t bits = mix(mix(seed + 0x9E3779B97F4A7C15ULL) ^ place);
  return static_cast<std::int32_t>((bits >> 32) * static_cast<std::uint64_t>(vocabulary) >> 32);
}

}  // namespace

std::uint64_t page_bytes(const backend::StateGroup& group, backend::KvFormat format, std::int32_t page_size) {
  const std::uint64_t row = graph::kv_row_bytes(format.k, group.k_width) + graph::kv_row_bytes(format.v, group.v_width);
  return static_cast<std::uint64_t>(page_size) * static_cast<std::uint64_t>(group.layers) *
         static_cast<std::uint64_t>(group.heads) * row;
}

SimProgram::SimProgram(std::shared_ptr<SimDevice> device, std::shared_ptr<const backend::Graph> graph,
                       backend::Limits limits)
    : device_(std::move(device)), graph_(std::move(graph)), limits_(limits) {
  graph::check(*graph_);
  if (limits_.tokens <= 0 || limits_.sequences <= 0 || limits_.outputs < 0) {
    core::fail(ErrorCode::invalid_argument, "limits are {} tokens, {} sequences, {} outputs", limits_.tokens,
               limits_.sequences, limits_.outputs);
  }
}

Result<std::unique_ptr<backend::Workspace>> SimProgram::workspace() const {
  return core::guard("Program::workspace", [&]() -> std::unique_ptr<backend::Workspace> {
    auto made = std::make_unique<SimWorkspace>();
    const backend::ValueId logits = graph_->logits;
    if (logits != backend::none) {
      made->row.resize(static_cast<std::size_t>(graph_->values[static_cast<std::size_t>(logits)].width));
    }
    return made;
  });
}

Result<std::unique_ptr<backend::KvStorage>> SimProgram::make_kv(backend::KvFormat format,
                                                                std::span<const std::int32_t> pages) const {
  return core::guard("Program::make_kv", [&]() -> std::unique_ptr<backend::KvStorage> {
    if (pages.size() != graph_->states.size()) {
      core::fail(ErrorCode::invalid_argument, "pages of {} state groups, the graph has {}", pages.size(),
                 graph_->states.size());
    }
    return std::make_unique<SimStorage>(*device_, *graph_, format, pages);
  });
}

Status SimProgram::run(const backend::StepBatch& batch, backend::KvStorage& kv, backend::Workspace& workspace,
                       const backend::StepOutputs& outputs, const backend::StopFlag& stop,
                       backend::ProfileSink* profile) const noexcept {
  auto& storage = static_cast<SimStorage&>(kv);
  const Status status =
      check_batch({graph_.get(), limits_, storage.pages(), device_->description.page_size}, batch, outputs);
  if (!status.ok()) return status;
  if (stop.requested()) return {ErrorCode::cancelled, "the step was stopped"};
  {
    const std::lock_guard<std::mutex> turn(device_->turn);
    const std::int64_t start = device_->clock->now_ns();
    device_->clock->advance_ns(storage.step_ns(batch));
    if (profile != nullptr) {
      profile->on_span({start, device_->clock->now_ns(), 0, 0, static_cast<std::int32_t>(graph_->ops.size())});
    }
  }
  const std::span<float> scratch(static_cast<SimWorkspace&>(workspace).row);
  for (std::size_t row = 0; row < batch.output_rows.size(); ++row) choose(batch, row, scratch, outputs);
  return {};
}

/// The chosen token's logit is 1, all others are 0; masks and top-k follow from that.
void SimProgram::choose(const backend::StepBatch& batch, std::size_t row, std::span<float> scratch,
                        const backend::StepOutputs& outputs) const noexcept {
  const auto at = static_cast<std::size_t>(batch.output_rows[row]);
  const auto token = static_cast<std::size_t>(
      hashed(device_->seed, batch.tokens[at], batch.positions[at], static_cast<std::int32_t>(scratch.size())));
  const auto fill = [&](std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0F);
    logits[token] = 1.0F;
  };
  if (outputs.kind == OutputKind::logits) {
    fill(outputs.values.subspan(row * scratch.size(), scratch.size()));
  } else if (outputs.kind == OutputKind::hidden) {
    const auto width = static_cast<std::size_t>(graph_->values[static_cast<std::size_t>(graph_->hidden)].width);
    const std::span<float> hidden = outputs.values.subspan(row * width, width);
    std::fill(hidden.begin(), hidden.end(), 0.0F);
  } else if (outputs.kind == OutputKind::arg_max && outputs.allowed.empty()) {
    outputs.ids[row] = static_cast<std::int32_t>(token);
    outputs.scores[row] = 1.0F;
  } else {
    fill(scratch);
    reduce_row(scratch, row, outputs);
  }
}

}  // namespace llminfer::device::sim
