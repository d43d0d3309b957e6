#include <algorithm>
#include <cmath>

#include "naive_program.hpp"

namespace naive {
namespace {

float* cached_row(const Step& step, StateSlot slot, std::size_t sequence, std::int32_t position, std::int32_t head) {
  const std::size_t table = static_cast<std::size_t>(slot.group) * step.batch.sequences.size() + sequence;
  const std::int32_t page = step.batch.page_tables[table].pages[position / page_size];
  return step.cache.row(slot, page, position % page_size, head);
}

const StateGroup& group_of(const Step& step, StateSlot slot) {
  return step.graph.states[static_cast<std::size_t>(slot.group)];
}

/// Rounds a head's row to the cache's format.
void store(const Step& step, llminfer::KvType type, const double* in, std::int32_t width, float* out) {
  for (std::int32_t i = 0; i < width; ++i) step.space.narrow[static_cast<std::size_t>(i)] = static_cast<float>(in[i]);
  step.formats.round_cached(type, step.space.narrow.data(), width, out);
}

/// One query head of one token over the keys first .. last.
void attend(const PagedAttention& op, const Step& step, std::size_t sequence, std::int32_t first, std::int32_t last,
            std::int32_t head, const double* q, double* out) {
  const StateGroup& group = group_of(step, op.slot);
  const std::int32_t kv_head = head / (op.heads / group.heads);
  double largest = op.sinks == none ? -HUGE_VAL : step.weight(op.sinks)[head];
  for (std::int32_t p = first; p <= last; ++p) {
    const float* key = cached_row(step, op.slot, sequence, p, kv_head);
    double score = 0;
    for (std::int32_t i = 0; i < group.k_width; ++i) score += q[i] * key[i];
    score *= op.scale;
    if (op.cap > 0) score = op.cap * std::tanh(score / op.cap);
    step.space.scores[static_cast<std::size_t>(p - first)] = score;
    largest = std::max(largest, score);
  }
  double sum = op.sinks == none ? 0 : std::exp(step.weight(op.sinks)[head] - largest);
  std::fill_n(out, group.v_width, 0.0);
  for (std::int32_t p = first; p <= last; ++p) {
    const float* value = cached_row(step, op.slot, sequence, p, kv_head) + group.k_width;
    const double weight = std::exp(step.space.scores[static_cast<std::size_t>(p - first)] - largest);
    sum += weight;
    for (std::int32_t i = 0; i < group.v_width; ++i) out[i] += weight * value[i];
  }
  for (std::int32_t i = 0; i < group.v_width; ++i) out[i] /= sum;
}

}  // namespace

void run_cache_op(const KvWrite& op, const Step& step) noexcept {
  const StateGroup& group = group_of(step, op.slot);
  for (std::size_t s = 0; s < step.batch.sequences.size(); ++s) {
    const SequenceRange& range = step.batch.sequences[s];
    for (std::int32_t t = 0; t < range.count; ++t) {
      const auto token = static_cast<std::size_t>(range.first + t);
      for (std::int32_t h = 0; h < group.heads; ++h) {
        float* row = cached_row(step, op.slot, s, range.start + t, h);
        store(step, step.cache.format().k, step.row(op.k, token) + h * group.k_width, group.k_width, row);
        if (op.v == none) continue;
        store(step, step.cache.format().v, step.row(op.v, token) + h * group.v_width, group.v_width,
              row + group.k_width);
      }
    }
  }
}

void run_cache_op(const PagedAttention& op, const Step& step) noexcept {
  const StateGroup& group = group_of(step, op.slot);
  for (std::size_t s = 0; s < step.batch.sequences.size(); ++s) {
    const SequenceRange& range = step.batch.sequences[s];
    for (std::int32_t t = 0; t < range.count; ++t) {
      const auto token = static_cast<std::size_t>(range.first + t);
      const std::int32_t position = range.start + t;
      const std::int32_t last = op.mode == AttentionMode::causal ? position : range.start + range.count - 1;
      const std::int32_t first = group.window > 0 ? std::max(0, position - group.window + 1) : 0;
      for (std::int32_t h = 0; h < op.heads; ++h) {
        attend(op, step, s, first, last, h, step.row(op.q, token) + h * group.k_width,
               step.row(op.out, token) + h * group.v_width);
      }
    }
  }
}

}  // namespace naive
