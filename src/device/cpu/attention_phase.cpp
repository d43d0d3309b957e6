#include "device/cpu/attention_phase.h"

#include <algorithm>
#include <atomic>

#include "device/cpu/executor.h"

namespace llminfer::cpu {
namespace {

const backend::PagedAttention& op_of(const backend::Graph& graph, const Phase& phase) noexcept {
  return std::get<backend::PagedAttention>(graph.ops[static_cast<std::size_t>(phase.first_op)]);
}

}  // namespace

AttentionPhase::AttentionPhase(const Executor& run, const Phase& phase, int thread, int threads) noexcept
    : run_(run),
      phase_(phase),
      op_(op_of(run.program_.graph(), phase)),
      state_(run.program_.graph().states[static_cast<std::size_t>(op_.slot.group)]),
      thread_(thread),
      threads_(threads),
      shared_(op_.heads / state_.heads),
      heads_(std::min(shared_, attention_rows)) {}

/// Visits (task with its pages, tokens and heads; row of its first token; first head) of the whole step.
template <class Visit>
void AttentionPhase::each_task(Visit&& visit) noexcept {
  const backend::StepBatch& batch = run_.batch_;
  AttentionTask task;
  task.full = op_.mode == backend::AttentionMode::full;
  task.window = state_.window;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const backend::SequenceRange& range = batch.sequences[s];
    task.pages = batch.page_tables[static_cast<std::size_t>(op_.slot.group) * batch.sequences.size() + s].pages;
    task.last = range.start + range.count - 1;
    for (std::int32_t first = 0; first < range.count; first += task.tokens) {
      task.position = range.start + first;
      task.tokens = tile_at(task, range.count - first);
      for (std::int32_t h = 0; h < op_.heads; h += task.heads) {
        task.heads = std::min(heads_, (h / shared_ + 1) * shared_ - h);
        visit(task, range.first + first, h);
      }
    }
  }
}

/// Tokens of a task, at most `most`: their ranges must be equally long.
std::int32_t AttentionPhase::tile_at(const AttentionTask& task, std::int32_t most) const noexcept {
  const std::int32_t tokens = std::min(std::max(1, attention_rows / heads_), most);
  if (task.full) return tokens;
  const auto range_at = [&](std::int32_t keys) {
    return attention_range(task.window > 0 ? std::min(keys, task.window) : keys);
  };
  const std::int32_t range = range_at(task.position + 1);
  return range_at(task.position + tokens) == range ? tokens : 32 * range - task.position;
}

/// Fills in where the task reads and writes.
void AttentionPhase::place(Job& job) const noexcept {
  AttentionTask& t = job.task;
  const CpuKvStorage::Group& group = run_.kv_.group(op_.slot.group);
  const std::int32_t kv_head = job.head / shared_;
  const float* sinks = run_.program_.values(op_.sinks);
  t.q = run_.value(op_.q, job.row, thread_) + std::int64_t{job.head} * state_.k_width;
  t.out = run_.value(op_.out, job.row, thread_) + std::int64_t{job.head} * state_.v_width;
  t.q_stride = std::int64_t{op_.heads} * state_.k_width;
  t.out_stride = std::int64_t{op_.heads} * state_.v_width;
  t.scale = op_.scale;
  t.cap = op_.cap;
  t.sinks = sinks != nullptr ? sinks + job.head : nullptr;
  t.storage = group.buffer.data();
  t.page_bytes = group.shape.page_bytes;
  t.k_offset = op_.slot.layer * group.shape.layer_bytes + kv_head * group.shape.head_bytes;
  t.v_offset = t.k_offset + group.shape.k_block;
  t.k_bytes = group.shape.k_block;
  t.v_bytes = group.shape.v_block;
  t.k_type = run_.kv_.format().k;
  t.v_type = run_.kv_.format().v;
  t.k_width = state_.k_width;
  t.v_width = state_.v_width;
  t.scratch = reinterpret_cast<float*>(run_.scratch(thread_));
}

/// Tells a job which keys the thread will read first after it.
void AttentionPhase::announce(Job& job, const Job& next) const noexcept {
  const AttentionKeys keys = attention_keys(next.task);
  const RangePart& part = next.parts.parts[static_cast<std::size_t>(next.mine)];
  const std::int32_t begin = std::max(part.first * keys.range, keys.first);
  const std::int32_t block = begin / attention_block * attention_block + attention_block - 1;
  job.task.next_pages = next.task.pages + begin / kv_page;
  job.task.next_count = std::min(block, keys.last) / kv_page - begin / kv_page + 1;
  job.task.next_offset = next.task.k_offset;
}

/// Many tasks are taken whole, by whoever comes first; of few each thread takes a part of equal weight.
void AttentionPhase::work() noexcept {
  std::int64_t total = 0, largest = 0, count = 0;
  each_task([&](const AttentionTask& task, std::int64_t, std::int32_t) {
    const std::int64_t weight = attention_weight(attention_keys(task), task.tokens * task.heads);
    total += weight;
    largest = std::max(largest, weight);
    ++count;
  });
  constexpr std::int64_t many = 8;  // of a thread
  if (largest <= total / threads_ / many) {
    take_tasks(count);
  } else {
    take_parts(total);
  }
  if (any_) run(pending_);
}

void AttentionPhase::take_tasks(std::int64_t count) noexcept {
  Claims list = run_.claims(phase_, thread_, threads_, count, {});
  list.each([&](const core::Share& part) {
    std::int64_t at = 0;
    each_task([&](const AttentionTask& task, std::int64_t row, std::int32_t head) {
      if (at >= part.begin && at < part.end) {
        const AttentionKeys keys = attention_keys(task);
        RangeParts whole;
        whole.parts[static_cast<std::size_t>(whole.count++)] = {thread_, keys.first / keys.range,
                                                                keys.last / keys.range + 1};
        take({task, row, head, whole, 0});
      }
      ++at;
    });
  });
}

void AttentionPhase::take_parts(std::int64_t total) noexcept {
  AttentionShares shares(total, threads_);
  each_task([&](const AttentionTask& task, std::int64_t row, std::int32_t head) {
    const std::int32_t rows = task.tokens * task.heads;
    const RangeParts parts = shares.next(attention_keys(task), rows, rows > heads_);
    for (std::int32_t i = 0; i < parts.count; ++i) {
      if (parts.parts[static_cast<std::size_t>(i)].thread == thread_) take({task, row, head, parts, i});
    }
  });
}

/// Does the job before this one: it asks for what this one reads.
void AttentionPhase::take(Job job) noexcept {
  place(job);
  if (any_) {
    announce(pending_, job);
    run(pending_);
  }
  pending_ = job;
  any_ = true;
}

/// Slots of a thread: first that of the part that begins an item, one state; then those of a part that does not.
float* AttentionPhase::states_of(const RangeParts& parts, std::int32_t part) const noexcept {
  const auto& plan = run_.program_.plan();
  const std::uint64_t thread = static_cast<std::uint64_t>(parts.parts[static_cast<std::size_t>(part)].thread);
  auto* states = reinterpret_cast<float*>(run_.base_ + plan.states_at + plan.states_bytes * thread);
  return part == 0 ? states : states + attention_state_floats(heads_, state_.v_width);
}

/// Of a task in parts, each thread counts its own; the last one merges them all.
void AttentionPhase::run(Job& job) noexcept {
  const std::int32_t count = job.parts.count;
  if (count == 1) {
    run_.kernels_.attention(job.task);
    return quantize(job);
  }
  const auto part = [&](std::int32_t i) -> const RangePart& { return job.parts.parts[static_cast<std::size_t>(i)]; };
  job.task.first_range = part(job.mine).first;
  job.task.end_range = part(job.mine).end;
  job.task.states = states_of(job.parts, job.mine);
  run_.kernels_.attention(job.task);

  auto* finished = reinterpret_cast<std::uint32_t*>(run_.base_ + run_.program_.plan().parts_at);
  const std::atomic_ref<std::uint32_t> counter(finished[part(0).thread]);
  if (counter.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<std::uint32_t>(count)) return;
  counter.store(0, std::memory_order_relaxed);
  std::array<AttentionPart, attention_ranges> states{};
  for (std::int32_t i = 0; i < count; ++i) {
    states[static_cast<std::size_t>(i)] = {states_of(job.parts, i), i == 0 ? 1 : part(i).end - part(i).first};
  }
  run_.kernels_.merge_attention(job.task, states.data(), count);
  quantize(job);
}

void AttentionPhase::quantize(const Job& job) noexcept {
  if (phase_.step_count == 0) return;
  const std::int64_t begin = std::int64_t{job.head} * state_.v_width;
  for (std::int32_t t = 0; t < job.task.tokens; ++t) {
    run_.quantize_columns(op_.out, job.row + t, begin, begin + std::int64_t{job.task.heads} * state_.v_width, thread_);
  }
}

std::uint64_t attention_state_bytes(std::int32_t shared_heads, std::int32_t v_width) noexcept {
  const std::int32_t rows = std::min(shared_heads, attention_rows);
  return sizeof(float) * static_cast<std::uint64_t>((1 + attention_ranges) * attention_state_floats(rows, v_width));
}

}  // namespace llminfer::cpu
