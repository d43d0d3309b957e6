#include "device/cpu/head_op.h"

#include <cstring>

#include "device/cpu/executor.h"

namespace llminfer::cpu {

void HeadOp::norm(const backend::RmsNorm& op) const noexcept {
  const std::int64_t at = std::int64_t{head} * op.group;
  run.kernels_.rms_norm(run.value(op.in, row, thread) + at, run.program_.values(op.weight),
                        run.value(op.out, row, thread) + at, op.group, op.eps);
}

void HeadOp::rope(const backend::Rope& op) const noexcept {
  const auto& table = run.program_.graph().rope_tables[static_cast<std::size_t>(op.table)];
  const std::int64_t pairs = static_cast<std::int64_t>(table.inverse_frequency.size());
  const auto turn = op.pairing == backend::RopePairing::half ? run.kernels_.rope_half : run.kernels_.rope_interleaved;
  const float* in = run.value(op.in, row, thread) + std::int64_t{head} * op.head_width;
  float* out = run.value(op.out, row, thread) + std::int64_t{head} * op.head_width;
  turn(in, out, run.cosine(op.table, row), run.sine(op.table, row), pairs);
  const std::int64_t rest = op.head_width - 2 * pairs;
  if (rest > 0) std::memcpy(out + 2 * pairs, in + 2 * pairs, sizeof(float) * static_cast<std::size_t>(rest));
}

void HeadOp::slice(const backend::Slice& op, std::int32_t head_width) const noexcept {
  const std::int64_t at = std::int64_t{head} * head_width;
  std::memcpy(run.value(op.out, row, thread) + at, run.value(op.in, row, thread) + op.offset + at,
              sizeof(float) * static_cast<std::size_t>(head_width));
}

/// The slot's layer in the page of the row's position.
std::byte* HeadOp::page_of(const backend::KvWrite& op) const noexcept {
  const PageShape& shape = run.kv_.group(op.slot.group).shape;
  const std::size_t table = static_cast<std::size_t>(op.slot.group) * run.batch_.sequences.size() + sequence;
  const std::int32_t position = run.batch_.positions[static_cast<std::size_t>(row)];
  const std::int64_t page = run.batch_.page_tables[table].pages[position / kv_page];
  return run.kv_.data(op.slot.group) + page * shape.page_bytes + op.slot.layer * shape.layer_bytes;
}

void HeadOp::store_key(const backend::KvWrite& op) const noexcept {
  const backend::StateGroup& state = run.program_.graph().states[static_cast<std::size_t>(op.slot.group)];
  const PageShape& shape = run.kv_.group(op.slot.group).shape;
  const std::int32_t position = run.batch_.positions[static_cast<std::size_t>(row)];
  run.kernels_.store_k(run.value(op.k, row, thread) + std::int64_t{head} * state.k_width, run.kv_.format().k,
                       page_of(op) + head * shape.head_bytes, state.k_width, position % kv_page);
}

void HeadOp::store_value(const backend::KvWrite& op) const noexcept {
  const backend::StateGroup& state = run.program_.graph().states[static_cast<std::size_t>(op.slot.group)];
  const PageShape& shape = run.kv_.group(op.slot.group).shape;
  const std::int32_t position = run.batch_.positions[static_cast<std::size_t>(row)];
  run.kernels_.store_v(run.value(op.v, row, thread) + std::int64_t{head} * state.v_width, run.kv_.format().v,
                       page_of(op) + head * shape.head_bytes + shape.k_block, state.v_width, position % kv_page);
}

}  // namespace llminfer::cpu
