// Runs one step: every thread walks the phases of the schedule, with a barrier between them.
#pragma once

#include <atomic>
#include <limits>

#include "device/cpu/claims.h"
#include "device/cpu/multiply.h"
#include "device/cpu/program.h"

namespace llminfer::cpu {

/// The best logit of some columns of a row, the first of equals.
struct BestLogit {
  float score = -std::numeric_limits<float>::infinity();
  std::int32_t id = 0;
};

/// Stands behind all logits.
constexpr BestLogit no_logit{-std::numeric_limits<float>::infinity(), std::numeric_limits<std::int32_t>::max()};

/// Of a block of a row's columns: its largest logit, and the sum of e^(logit - top).
struct LogitSum {
  float top = 0;
  float sum = 0;
};

class Executor {
 public:
  Executor(const CpuProgram& program, const backend::StepBatch& batch, CpuKvStorage& kv, CpuWorkspace& workspace,
           const backend::StepOutputs& outputs, const backend::StopFlag& stop, backend::ProfileSink* profile) noexcept;

  /// The batch has been checked.
  backend::Status run() noexcept;

 private:
  friend struct RowOp;
  friend struct ColumnOp;
  friend struct HeadOp;
  friend class AttentionPhase;

  void work(int thread, int threads) noexcept;
  void profile_phase(const Phase& phase, std::int64_t start, std::int64_t worked) noexcept;
  void run_phase(const Phase& phase, int thread, int threads) noexcept;
  std::int64_t now() const noexcept;
  void angles(int thread, int threads) noexcept;
  void rows(const Phase& phase, int thread, int threads) noexcept;
  void some_rows(const Phase& phase, const core::Share& part, int thread) noexcept;
  void matmul(const Phase& phase, int thread, int threads) noexcept;
  const backend::MatMul& product_at(const Phase& phase, std::int32_t index) const noexcept;
  /// Logits of some columns: of row r from at + r * stride on.
  struct LogitRows {
    float* at = nullptr;
    std::int64_t stride = 0;
  };
  const PlacedWeight& weight_of(const backend::MatMul& op) const noexcept;
  std::int64_t rows_of(const backend::MatMul& op) const noexcept;
  void product(const backend::MatMul& op, const PanelRange& panels, int thread, const LogitRows* to = nullptr) noexcept;
  void product(const backend::MatMul& op, const PanelRange& panels, const Columns& columns, int thread) noexcept;
  Claims claims(const Phase& phase, int thread, int threads, std::int64_t total, ClaimSize size) const noexcept;
  static std::int64_t least_claim(std::int64_t bytes, std::int64_t rows) noexcept;
  static ClaimSize panel_claims(std::int64_t panel_bytes, std::int64_t rows) noexcept;
  ClaimSize column_claims(const Phase& phase) const noexcept;
  static PanelRange panels_of_columns(const ProductPart& part, const core::Share& columns) noexcept;
  std::int64_t piece_of(const Phase& phase) const noexcept;
  struct WeightPlace {
    const PlacedWeight* weight = nullptr;
    std::int64_t panel = 0;
  };
  WeightPlace first_weights(const Phase& phase, int thread, int threads) const noexcept;
  void ask_for_weights(const WeightPlace& place) const noexcept;
  void ask_ahead(std::size_t p, int thread, int threads) const noexcept;
  void column_list(const Phase& phase, int thread, int threads) noexcept;
  std::int64_t column_grain(const Phase& phase) const noexcept;
  core::Share column_share(const Phase& phase, int thread, int threads) const noexcept;
  void forbid(std::int64_t row, std::int64_t begin, std::int64_t end, float* logits) const noexcept;
  void logit_list(const Phase& phase, int thread, int threads) noexcept;
  void forget_bests(int thread) noexcept;
  void find_bests(const core::Share& columns, const LogitRows& rows, int thread) noexcept;
  void find_tops(const core::Share& columns, const LogitRows& rows, int thread) noexcept;
  void column_steps(const Phase& phase, std::int64_t begin, std::int64_t end, int thread) noexcept;
  void panel_list(const Phase& phase, int thread, int threads) noexcept;
  void head_list(const Phase& phase, int thread, int threads) noexcept;
  void finish_heads(const Phase& phase, const ProductPart& part, core::Share panels, int thread) noexcept;
  void head_steps(const Phase& phase, const ProductPart& part, std::int32_t head, int thread) noexcept;
  void quantize_columns(backend::ValueId id, std::int64_t row, std::int64_t begin, std::int64_t end,
                        int thread) const noexcept;
  void expert_list(const Phase& phase, int thread, int threads) noexcept;
  const backend::MoeMatMul& expert_product_at(const Phase& phase, std::int64_t i) const noexcept;
  std::int64_t least_of_experts(std::int64_t total, std::int64_t grain, int threads) const noexcept;
  void expert_product(const backend::MoeMatMul& op, const PanelRange& panels, int thread) noexcept;
  void finish(int thread, int threads) noexcept;
  void merge_bests(std::int64_t row, int threads) noexcept;
  void merge_tops(std::int64_t row, int threads) noexcept;

  std::int64_t row_count(backend::Rows rows) const noexcept {
    return rows == backend::Rows::tokens ? tokens_ : outputs_count_;
  }
  std::int64_t width(backend::ValueId id) const noexcept {
    return program_.graph().values[static_cast<std::size_t>(id)].width;
  }
  std::byte* own_base(int thread) const noexcept;
  /// Row `r` of a value, as the thread has it.
  float* value(backend::ValueId id, std::int64_t r, int thread) const noexcept;
  QuantRows quant(backend::ValueId id, int thread) const noexcept;
  Columns columns_of(backend::ValueId in, backend::ValueId out, const PlacedWeight& weight, int thread) const noexcept;
  /// The sequence of a row of Rows::tokens, looked for from sequence `from` on.
  std::size_t sequence_of(std::int64_t row, std::size_t from) const noexcept;
  std::byte* scratch(int thread) const noexcept;
  GroupsMade& made(int thread) const noexcept;  ///< what of the phase stands in the scratch
  /// One for each row wanted out.
  BestLogit* bests_of(int thread) const noexcept;
  /// outputs_.k for each row wanted out, in falling order; no_logit where there is none yet.
  BestLogit* tops_of(int thread, std::int64_t row) const noexcept;
  LogitSum* sums_of(std::int64_t row) const noexcept;
  const float* cosine(std::int32_t table, std::int64_t token) const noexcept;
  const float* sine(std::int32_t table, std::int64_t token) const noexcept;

  const CpuProgram& program_;
  const Kernels& kernels_;
  const bool few_;  // the schedule for few rows
  const Schedule& schedule_;
  const backend::StepBatch& batch_;
  CpuKvStorage& kv_;
  std::byte* base_;
  const backend::StepOutputs& outputs_;
  const backend::StopFlag& stop_;
  backend::ProfileSink* profile_;
  const bool bests_;  // each thread finds the best of the logits that it makes
  const bool tops_;   // or the k best
  std::int64_t tokens_;
  std::int64_t outputs_count_;
  float* logits_;                        // where logits go directly, or null
  std::atomic<std::size_t> stop_after_;  // phase after which all threads leave; set by thread 0 before its barrier
};

}  // namespace llminfer::cpu
