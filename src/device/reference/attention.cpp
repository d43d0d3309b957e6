#include <algorithm>
#include <cmath>
#include <limits>

#include "device/reference/ops.h"

namespace llminfer::device::reference {
namespace {

/// Where a position of sequence `s` lies in a state group.
struct Place {
  std::int32_t page;
  std::int32_t offset;
};

Place place_of(const Step& step, std::int32_t group, std::size_t s, std::int64_t position) {
  const std::size_t table = static_cast<std::size_t>(group) * step.batch.sequences.size() + s;
  return {step.batch.page_tables[table].pages[position / page_size], static_cast<std::int32_t>(position % page_size)};
}

/// One query head over the keys [first, last] of its sequence.
void attend(const backend::PagedAttention& op, const Step& step, std::size_t s, std::int64_t first, std::int64_t last,
            std::int32_t kv_head, double sink, const float* q, float* out) {
  const backend::StateGroup& group = step.graph.states[static_cast<std::size_t>(op.slot.group)];
  double max = sink;
  for (std::int64_t p = first; p <= last; ++p) {
    const Place at = place_of(step, op.slot.group, s, p);
    step.kv.read(false, op.slot, at.page, at.offset, kv_head, step.row.data());
    double dot = 0;
    for (std::int32_t i = 0; i < group.k_width; ++i)
      dot += static_cast<double>(q[i]) * step.row[static_cast<std::size_t>(i)];
    double score = dot * op.scale;
    if (op.cap > 0) score = op.cap * std::tanh(score / op.cap);
    step.scores[static_cast<std::size_t>(p - first)] = score;
    max = std::max(max, score);
  }
  double sum = std::exp(sink - max);
  std::fill_n(out, group.v_width, 0.0F);
  for (std::int64_t p = first; p <= last; ++p) {
    double& score = step.scores[static_cast<std::size_t>(p - first)];
    score = std::exp(score - max);
    sum += score;
  }
  for (std::int64_t p = first; p <= last && group.v_width > 0; ++p) {
    const Place at = place_of(step, op.slot.group, s, p);
    step.kv.read(true, op.slot, at.page, at.offset, kv_head, step.row.data());
    const auto weight = static_cast<float>(step.scores[static_cast<std::size_t>(p - first)] / sum);
    for (std::int32_t i = 0; i < group.v_width; ++i) out[i] += weight * step.row[static_cast<std::size_t>(i)];
  }
}

}  // namespace

void run_op(const backend::Rope& op, const Step& step) {
  const backend::RopeTable& table = step.graph.rope_tables[static_cast<std::size_t>(op.table)];
  const auto pairs = static_cast<std::int32_t>(table.inverse_frequency.size());
  const bool adjacent = op.pairing == backend::RopePairing::interleaved;
  for (std::int64_t r = 0; r < step.rows(op.in); ++r) {
    std::copy_n(step.data(op.in, r), step.width(op.in), step.data(op.out, r));
    for (std::int32_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(step.batch.positions[static_cast<std::size_t>(r)]) *
                           table.inverse_frequency[static_cast<std::size_t>(i)];
      const double c = std::cos(angle) * table.magnitude;
      const double s = std::sin(angle) * table.magnitude;
      for (std::int32_t h = 0; h < op.heads; ++h) {
        float* head = step.data(op.out, r) + std::int64_t{h} * op.head_width;
        float& x = head[adjacent ? 2 * i : i];
        float& y = head[adjacent ? 2 * i + 1 : i + pairs];
        const double a = x;
        const double b = y;
        x = static_cast<float>(a * c - b * s);
        y = static_cast<float>(a * s + b * c);
      }
    }
  }
}

void run_op(const backend::KvWrite& op, const Step& step) {
  const backend::StateGroup& group = step.graph.states[static_cast<std::size_t>(op.slot.group)];
  for (std::size_t s = 0; s < step.batch.sequences.size(); ++s) {
    const backend::SequenceRange& range = step.batch.sequences[s];
    for (std::int32_t t = 0; t < range.count; ++t) {
      const Place at = place_of(step, op.slot.group, s, range.start + t);
      for (std::int32_t h = 0; h < group.heads; ++h) {
        step.kv.write(false, op.slot, at.page, at.offset, h,
                      step.data(op.k, range.first + t) + std::int64_t{h} * group.k_width);
        if (op.v == backend::none) continue;
        step.kv.write(true, op.slot, at.page, at.offset, h,
                      step.data(op.v, range.first + t) + std::int64_t{h} * group.v_width);
      }
    }
  }
}

void run_op(const backend::PagedAttention& op, const Step& step) {
  const backend::StateGroup& group = step.graph.states[static_cast<std::size_t>(op.slot.group)];
  const float* sinks = op.sinks == backend::none ? nullptr : step.weight(op.sinks).values.data();
  const std::int32_t heads_per_kv = op.heads / group.heads;
  for (std::size_t s = 0; s < step.batch.sequences.size(); ++s) {
    const backend::SequenceRange& range = step.batch.sequences[s];
    for (std::int32_t t = 0; t < range.count; ++t) {
      const std::int64_t position = std::int64_t{range.start} + t;
      const bool causal = op.mode == backend::AttentionMode::causal;
      const std::int64_t last = causal ? position : std::int64_t{range.start} + range.count - 1;
      const std::int64_t first = group.window > 0 ? std::max<std::int64_t>(0, position - group.window + 1) : 0;
      for (std::int32_t h = 0; h < op.heads; ++h) {
        const double sink = sinks == nullptr ? -std::numeric_limits<double>::infinity() : sinks[h];
        attend(op, step, s, first, last, h / heads_per_kv, sink,
               step.data(op.q, range.first + t) + std::int64_t{h} * group.k_width,
               step.data(op.out, range.first + t) + std::int64_t{h} * group.v_width);
      }
    }
  }
}

}  // namespace llminfer::device::reference
