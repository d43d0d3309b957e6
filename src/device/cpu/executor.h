// Runs one step: every thread walks the phases of the schedule, with a barrier between them.
#pragma once

#include <atomic>

#include "device/cpu/multiply.h"
#include "device/cpu/program.h"

namespace llminfer::cpu {

class Executor {
 public:
  Executor(const CpuProgram& program, const backend::StepBatch& batch, CpuKvStorage& kv, CpuWorkspace& workspace,
           const backend::StepOutputs& outputs, const backend::StopFlag& stop, backend::ProfileSink* profile) noexcept;

  /// The batch has been checked.
  backend::Status run() noexcept;

 private:
  friend struct RowOp;

  void work(int thread, int threads) noexcept;
  void profile_phase(const Phase& phase, std::int64_t start, std::int64_t worked) noexcept;
  void run_phase(const Phase& phase, int thread, int threads) noexcept;
  std::int64_t now() const noexcept;
  void angles(int thread, int threads) noexcept;
  void rows(const Phase& phase, int thread, int threads) noexcept;
  void matmul(const Phase& phase, int thread, int threads) noexcept;
  void moe_matmul(const backend::MoeMatMul& op, int thread, int threads) noexcept;
  void attention(const backend::PagedAttention& op, int thread, int threads) noexcept;
  void finish(int thread, int threads) noexcept;

  std::int64_t row_count(backend::Rows rows) const noexcept {
    return rows == backend::Rows::tokens ? tokens_ : outputs_count_;
  }
  std::int64_t width(backend::ValueId id) const noexcept {
    return program_.graph().values[static_cast<std::size_t>(id)].width;
  }
  /// Row `r` of a value.
  float* value(backend::ValueId id, std::int64_t r = 0) const noexcept;
  QuantRows quant(backend::ValueId id) const noexcept;
  Columns columns_of(backend::ValueId in, backend::ValueId out, const PlacedWeight& weight) const noexcept;
  std::byte* scratch(int thread) const noexcept;
  const float* cosine(std::int32_t table, std::int64_t token) const noexcept;
  const float* sine(std::int32_t table, std::int64_t token) const noexcept;

  const CpuProgram& program_;
  const Kernels& kernels_;
  const backend::StepBatch& batch_;
  CpuKvStorage& kv_;
  std::byte* base_;
  const backend::StepOutputs& outputs_;
  const backend::StopFlag& stop_;
  backend::ProfileSink* profile_;
  std::int64_t tokens_;
  std::int64_t outputs_count_;
  float* logits_;                        // where logits go directly, or null
  std::atomic<std::size_t> stop_after_;  // phase after which all threads leave; set by thread 0 before its barrier
};

}  // namespace llminfer::cpu
