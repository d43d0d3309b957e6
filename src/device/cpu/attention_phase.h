// The attention of one op: which tasks there are, and which of them, or which parts, a thread does.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llminfer/backend/graph.hpp>

#include "device/cpu/attention_share.h"
#include "device/cpu/schedule.h"

namespace llminfer::cpu {

class Executor;

class AttentionPhase {
 public:
  AttentionPhase(const Executor& run, const Phase& phase, int thread, int threads) noexcept;

  /// What falls to the thread.
  void work() noexcept;

 private:
  /// A task, of which one part is the thread's.
  struct Job {
    AttentionTask task{};
    std::int64_t row = 0;  // of its first token in the batch
    std::int32_t head = 0;
    RangeParts parts{};
    std::int32_t mine = 0;
  };

  template <class Visit>
  void each_task(Visit&& visit) noexcept;
  std::int32_t tile_at(const AttentionTask& task, std::int32_t most) const noexcept;
  void take_tasks(std::int64_t count) noexcept;
  void take_parts(std::int64_t total) noexcept;
  void take(Job job) noexcept;
  void place(Job& job) const noexcept;
  void announce(Job& job, const Job& next) const noexcept;
  void run(Job& job) noexcept;
  void quantize(const Job& job) noexcept;
  float* states_of(const RangeParts& parts, std::int32_t part) const noexcept;

  const Executor& run_;
  const Phase& phase_;
  const backend::PagedAttention& op_;
  const backend::StateGroup& state_;
  int thread_;
  int threads_;
  std::int32_t shared_;  // query heads of a KV head
  std::int32_t heads_;   // of a task, at most
  Job pending_{};
  bool any_ = false;  // pending_ is one
};

/// Bytes of the states that one thread keeps for an op, for the threads that merge them.
std::uint64_t attention_state_bytes(std::int32_t shared_heads, std::int32_t v_width) noexcept;

}  // namespace llminfer::cpu
