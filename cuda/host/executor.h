// One step: op by op in the order of the graph, one or two launches each; or all of them by replaying a recorded step.
#pragma once

#include <llminfer/backend/backend.hpp>

#include "host/kv_storage.h"
#include "host/program.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/kv_write.h"
#include "kernels/matmul_quant.h"
#include "kernels/rope.h"
#include "kernels/rope_kv.h"

namespace llminfer::cuda {

/// Borrows everything for one run.
class Executor {
 public:
  Executor(const CudaProgram& program, const backend::StepBatch& batch, CudaKvStorage& kv, CudaWorkspace& space,
           const backend::StepOutputs& outputs, const backend::StopFlag& stop, backend::ProfileSink* profile) noexcept
      : program_(program),
        batch_(batch),
        kv_(kv),
        space_(space),
        outputs_(outputs),
        stop_(stop),
        profile_(profile),
        shape_(shape_of(batch, outputs, program.limits(), program.graph().context, profile != nullptr)) {}

  backend::Status run() noexcept;

 private:
  cudaError_t run_all() noexcept;
  cudaError_t run_ops(bool whole) noexcept;
  cudaError_t run_range(std::int32_t first, std::int32_t end) noexcept;
  cudaError_t run_op() noexcept;
  cudaError_t fetch_outputs() noexcept;

  cudaError_t run_one(const backend::Embed& op) noexcept;
  cudaError_t run_one(const backend::RmsNorm& op) noexcept;
  cudaError_t run_one(const backend::LayerNorm& op) noexcept;
  cudaError_t run_one(const backend::MatMul& op) noexcept;
  cudaError_t run_one(const backend::Rope& op) noexcept;
  cudaError_t run_one(const backend::KvWrite& op) noexcept;
  cudaError_t run_one(const backend::PagedAttention& op) noexcept;
  cudaError_t run_one(const backend::GatedActivation& op) noexcept;
  cudaError_t run_one(const backend::Add& op) noexcept;
  cudaError_t run_one(const backend::Scale& op) noexcept;
  cudaError_t run_one(const backend::Softcap& op) noexcept;
  cudaError_t run_one(const backend::Slice& op) noexcept;
  cudaError_t run_one(const backend::GatherRows& op) noexcept;
  cudaError_t run_one(const backend::MoeRoute& op) noexcept;
  cudaError_t run_one(const backend::MoeMatMul& op) noexcept;
  cudaError_t run_one(const backend::MoeCombine& op) noexcept;
  static Gate gate_of(const backend::GatedActivation& op) noexcept;
  cudaError_t product_of_fragments(const backend::MatMul& op) noexcept;
  cudaError_t product_of_file(const backend::MatMul& op) noexcept;
  bool product_by_gemm(const backend::MatMul& op) noexcept;
  ElementwiseParams elementwise(Elementwise kind, backend::ValueId a, backend::ValueId b,
                                backend::ValueId out) const noexcept;
  FragmentsParams fragments_of(backend::ValueId in, int set) const noexcept;
  FragmentsParams fragments_of(const backend::RmsNorm& op, std::int32_t ahead, int set) const noexcept;
  FragmentsParams fragments_of(backend::ValueId in, std::int64_t columns, const ExpertTiles& sorted,
                               int set) const noexcept;
  cudaError_t prepare(const FragmentsParams& params, backend::ValueId value, bool sorted = false) noexcept;
  FragmentsParams fold(const FragmentsParams& params, backend::ValueId value, bool sorted = false) noexcept;
  FragmentsParams fold_norm(backend::ValueId in, std::int32_t ahead) noexcept;
  MatMulQuantParams product_with(const FragmentsParams& f, const backend::Weight& w) const noexcept;
  cudaError_t product_of_experts(const backend::MoeMatMul& op) noexcept;
  ExpertTiles sorted_of(std::int32_t tokens, std::int32_t used, std::int64_t experts) const noexcept;
  RouteParams route_of(const backend::MoeRoute& op) const noexcept;
  CombineParams combine_of(const backend::MoeCombine& op, std::int32_t ahead) noexcept;
  void add_in(const backend::MatMul& op, const backend::Add& add, MatMulQuantParams& p) noexcept;
  NormAddParams add_normed(const backend::RmsNorm& norm, const backend::Add& add, MatMulQuantParams& p) noexcept;
  void split(const backend::MatMul& op, MatMulQuantParams& p) noexcept;
  void gate_in(backend::ValueId first_out, MatMulTarget other, const backend::GatedActivation& gate,
               MatMulQuantParams& p) noexcept;
  void fold_gated(const backend::GatedActivation& gate, std::int32_t ahead, MatMulQuantParams& p) noexcept;
  MatMulQuantParams join(const backend::MatMul& op, MatMulQuantParams& p) noexcept;
  RopeKvParams heads_of(std::int32_t ahead, std::int32_t count) const noexcept;
  void begin_heads() noexcept;
  void fold_heads(std::int32_t made, MatMulQuantParams& p) noexcept;
  cudaError_t rotate_into_cache() noexcept;
  cudaError_t attend_many(const AttentionParams& params) noexcept;
  RopeParams rope_of(const backend::Rope& op) const noexcept;
  KvWriteParams cache_of(const backend::KvWrite& op) const noexcept;
  MatMulTarget target_of(backend::WeightId weight, backend::WeightId bias, backend::ValueId out) const noexcept;
  bool is(const std::vector<bool>& fusion, std::int32_t ahead = 0) const noexcept {
    return fusion[static_cast<std::size_t>(index_ + ahead)];
  }
  /// So many ops, which begin `from` behind this one, if all are of its group.
  std::int32_t ops(const std::vector<std::int32_t>& fusion, std::int32_t from = 0) const noexcept {
    const std::int32_t n = fusion[static_cast<std::size_t>(index_)];
    return index_ + from + n <= end_ ? n : 0;
  }
  const Fusions& fusions() const noexcept { return program_.fusions(); }
  /// Whether the launch that makes a value may make its fragments too.
  bool folds(backend::ValueId id) const noexcept { return whole_ && rows(id) <= most_rows_folded; }
  unsigned* arrivals() const noexcept { return space_.memory.at<unsigned>(program_.plan().arrivals); }

  /// The op `n` behind the one that runs, if it is of this kind and of the same group.
  template <class OpType>
  const OpType* later(std::int32_t n) const noexcept {
    if (index_ + n >= end_) return nullptr;
    return std::get_if<OpType>(&program_.graph().ops[static_cast<std::size_t>(index_ + n)]);
  }

  backend::ValueId wanted() const noexcept { return shape_.hidden ? program_.graph().hidden : program_.graph().logits; }
  std::int32_t width(backend::ValueId id) const noexcept {
    return program_.graph().values[static_cast<std::size_t>(id)].width;
  }
  std::int32_t rows(backend::ValueId id) const noexcept;
  bool is_gathered(backend::ValueId id) const noexcept {
    return shape_.all_rows && fusions().gathered_from[static_cast<std::size_t>(id)] != id;
  }
  float* data(backend::ValueId id) const noexcept {
    if (shape_.all_rows) id = fusions().gathered_from[static_cast<std::size_t>(id)];
    return space_.memory.at<float>(program_.plan().values.offsets[static_cast<std::size_t>(id)]);
  }
  const backend::Weight& weight(backend::WeightId id) const noexcept {
    return program_.graph().weights[static_cast<std::size_t>(id)];
  }
  cudaStream_t stream() const noexcept { return program_.engine().stream(); }
  bool needs_reduction() const noexcept {
    return outputs_.kind == backend::OutputKind::arg_max || outputs_.kind == backend::OutputKind::top_k;
  }

  const CudaProgram& program_;
  const backend::StepBatch& batch_;
  CudaKvStorage& kv_;
  CudaWorkspace& space_;
  const backend::StepOutputs& outputs_;
  const backend::StopFlag& stop_;
  backend::ProfileSink* profile_;
  StepShape shape_;
  backend::ValueId prepared_ = backend::none;  // whose fragments the workspace has
  bool sorted_ = false;                        // by experts, for which there may be several of a row
  int set_ = 0;                                // where: WorkspacePlan::sets
  std::int32_t index_ = 0;                     // the op that runs
  std::int32_t end_ = 0;                       // of its group
  std::int32_t together_ = 1;                  // ops that its launches did
  bool whole_ = false;                         // all ops are one group
  RopeKvParams heads_{};                       // what products do with heads that they make
  std::int32_t heads_missing_ = 0;             // targets that they are yet to make
  std::int32_t heads_ops_ = 0;                 // ops that are done then
  bool stopped_ = false;
  bool complete_ = false;  // the ops that are left are not wanted
};

}  // namespace llminfer::cuda
