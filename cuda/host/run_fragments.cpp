// Norms and gathered rows that become fragments, in a launch of their own or by the one that makes the values.
#include "host/executor.h"
#include "kernels/norms.h"

namespace llminfer::cuda {

cudaError_t Executor::run_one(const backend::RmsNorm& op) noexcept {
  if (ops(fusions().rotates_into_cache) > 0) return rotate_into_cache();
  if (is(fusions().into_fragments) || is(fusions().also_into_fragments)) {
    return prepare(fragments_of(op, 0, 0), op.out);
  }
  NormParams p;
  p.in = data(op.in);
  p.weight = program_.floats(op.weight);
  p.out = data(op.out);
  p.groups = std::int64_t{rows(op.in)} * (width(op.in) / op.group);
  p.group = op.group;
  p.eps = op.eps;
  return launch(p, stream());
}

FragmentsParams Executor::fragments_of(backend::ValueId in, int set) const noexcept {
  const WorkspacePlan& plan = program_.plan();
  const FragmentsPlan& at = plan.sets[set];
  FragmentsParams f;
  f.in = data(in);
  f.fragments = space_.memory.at<std::uint16_t>(at.fragments);
  if (plan.rests) f.rest = space_.memory.at<std::uint16_t>(at.rest);
  f.scales = space_.memory.at<float>(at.row_scales);
  f.block_sums = space_.memory.at<float>(at.block_sums);
  f.rows = rows(in);
  f.columns = width(in);
  f.blocks = static_cast<std::int32_t>(fragment_blocks(f.columns));
  return f;
}

/// Of a norm that becomes fragments, so many ops ahead. Its output stands in memory if somebody else reads it.
FragmentsParams Executor::fragments_of(const backend::RmsNorm& op, std::int32_t ahead, int set) const noexcept {
  FragmentsParams f = fragments_of(op.in, set);
  f.weight = program_.floats(op.weight);
  f.eps = op.eps;
  const bool alone = is(fusions().into_fragments, ahead);
  if (!alone || (shape_.hidden && op.out == program_.graph().hidden)) f.out = data(op.out);
  return f;
}

/// Of the rows of all experts. A value of `columns` is the same for all of them, others have a row for each.
FragmentsParams Executor::fragments_of(backend::ValueId in, std::int64_t columns, const ExpertTiles& sorted,
                                       int set) const noexcept {
  FragmentsParams f = fragments_of(in, set);
  f.rows_wanted = f.columns == columns ? sorted.tokens : sorted.rows;
  f.rows = 8 * sorted.count;
  f.columns = static_cast<std::int32_t>(columns);
  f.blocks = static_cast<std::int32_t>(fragment_blocks(columns));
  return f;
}

/// Fragments stay until those of another value take their place: products of one value share them.
cudaError_t Executor::prepare(const FragmentsParams& f, backend::ValueId value, bool sorted) noexcept {
  const cudaError_t e = launch(f, stream());
  if (e != cudaSuccess) return e;
  prepared_ = value;
  sorted_ = sorted;
  set_ = 0;
  return e;
}

/// The same by the launch that makes the value, in the other set.
FragmentsParams Executor::fold(const FragmentsParams& f, backend::ValueId value, bool sorted) noexcept {
  prepared_ = value;
  sorted_ = sorted;
  set_ = 1 - set_;
  return f;
}

/// Of the norm so many ops ahead, behind an addition that is part of a launch: it becomes part of it too if it may.
FragmentsParams Executor::fold_norm(backend::ValueId in, std::int32_t ahead) noexcept {
  const auto* norm = later<backend::RmsNorm>(ahead);
  if (norm == nullptr || norm->in != in || !folds(norm->out)) return {};
  if (!is(fusions().into_fragments, ahead) && !is(fusions().also_into_fragments, ahead)) return {};
  together_ = ahead + 1;
  return fold(fragments_of(*norm, ahead, 1 - set_), norm->out);
}

cudaError_t Executor::run_one(const backend::GatherRows& op) noexcept {
  if (is_gathered(op.out)) return cudaSuccess;
  if (is(fusions().into_fragments)) {
    FragmentsParams f = fragments_of(op.out, 0);
    f.in = data(op.in);
    f.rows_wanted = space_.step.rows();
    return prepare(f, op.out);
  }
  CopyColumnsParams p;
  p.in = data(op.in);
  p.rows_wanted = space_.step.rows();
  p.out = data(op.out);
  p.rows = rows(op.out);
  p.in_width = width(op.in);
  p.width = width(op.out);
  return launch(p, stream());
}

}  // namespace llminfer::cuda
