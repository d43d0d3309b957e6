// Products as the parameters of their kernels, and what they do by the way.
#include "host/executor.h"
#include "host/repack.h"
#include "kernels/matmul_mixed.h"
#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

cudaError_t Executor::run_one(const backend::MatMul& op) noexcept {
  if (program_.placed(op.weight).form == WeightForm::fragments) return product_of_fragments(op);
  return product_of_file(op);
}

MatMulTarget Executor::target_of(backend::WeightId weight, backend::WeightId bias,
                                 backend::ValueId out) const noexcept {
  MatMulTarget t;
  t.weight = program_.fragments(weight);
  t.bias = program_.floats(bias);
  t.out = data(out);
  t.columns_out = static_cast<std::int32_t>(this->weight(weight).rows);
  return t;
}

MatMulQuantParams Executor::product_with(const FragmentsParams& f, const backend::Weight& w) const noexcept {
  MatMulQuantParams p;
  p.fragments = f.fragments;
  p.rest = f.rest;
  p.row_scales = f.scales;
  p.block_sums = f.block_sums;
  p.partials = space_.memory.at<float>(program_.plan().partials);
  p.counters = space_.memory.at<unsigned>(program_.plan().counters);
  p.end.arrivals = arrivals();
  p.rows = f.rows;
  p.chunks = static_cast<std::int32_t>(fragment_layout(w.type, w.rows, w.columns).chunks);
  p.in_blocks = f.blocks;
  p.type = w.type;
  p.most_of_cluster = program_.engine().most_of_cluster();
  return p;
}

cudaError_t Executor::product_of_fragments(const backend::MatMul& op) noexcept {
  if (prepared_ != op.in || sorted_) {
    if (const cudaError_t e = prepare(fragments_of(op.in, 0), op.in); e != cudaSuccess) return e;
  }
  MatMulQuantParams p = product_with(fragments_of(op.in, set_), weight(op.weight));
  p.targets[0] = target_of(op.weight, op.bias, op.out);
  const auto* add = later<backend::Add>(1);
  const auto* norm = later<backend::RmsNorm>(1);
  const auto* normed = later<backend::Add>(2);
  const auto* other = later<backend::MatMul>(1);
  const auto* gate = later<backend::GatedActivation>(2);
  begin_heads();
  NormAddParams behind;  // in a launch of its own
  if (add != nullptr && is(fusions().adds_next)) {
    add_in(op, *add, p);
  } else if (norm != nullptr && normed != nullptr && is(fusions().adds_normed)) {
    behind = add_normed(*norm, *normed, p);
  } else if (ops(fusions().slices, 1) > 0) {
    split(op, p);
    if (!p.end.gated) fold_heads(p.count, p);
  } else if (gate != nullptr && is(fusions().gates_next)) {
    gate_in(op.out, target_of(other->weight, other->bias, other->out), *gate, p);
    fold_gated(*gate, 2, p);
  } else {
    MatMulQuantParams others = join(op, p);
    fold_heads(p.count + others.count, p);
    others.end = p.end;
    if (others.count > 0) return launch_mixed(p, others, stream());
  }
  const cudaError_t e = launch(p, stream());
  return e == cudaSuccess && behind.in != nullptr ? launch(behind, stream()) : e;
}

/// The addition that follows, and the norm behind that if it becomes fragments.
void Executor::add_in(const backend::MatMul& op, const backend::Add& add, MatMulQuantParams& p) noexcept {
  p.targets[0].residual = data(add.a == op.out ? add.b : add.a);
  p.targets[0].out = data(add.out);
  together_ = 2;
  p.end.next = fold_norm(add.out, 2);
}

/// The norm and the addition that follow, and the norm behind that as in add_in. Returned: what the product leaves for
/// a launch behind it.
NormAddParams Executor::add_normed(const backend::RmsNorm& norm, const backend::Add& add,
                                   MatMulQuantParams& p) noexcept {
  NormAddParams n;
  n.in = data(norm.in);
  n.weight = program_.floats(norm.weight);
  n.residual = data(add.a == norm.out ? add.b : add.a);
  n.out = data(add.out);
  n.rows = rows(norm.in);
  n.columns = width(norm.in);
  n.eps = norm.eps;
  together_ = 3;
  if (!folds(add.out)) return n;
  p.end.add = n;
  p.end.next = fold_norm(add.out, 3);
  return {};
}

/// The slices that follow, as products with parts of the weight, and the gated activation behind them.
void Executor::split(const backend::MatMul& op, MatMulQuantParams& p) noexcept {
  const backend::Weight& w = weight(op.weight);
  const std::int64_t group_bytes = fragment_layout(w.type, w.rows, w.columns).group_bytes;
  const MatMulTarget all = p.targets[0];
  p.count = ops(fusions().slices, 1);
  for (std::int32_t n = 0; n < p.count; ++n) {
    const auto* slice = later<backend::Slice>(n + 1);
    MatMulTarget& t = p.targets[n];
    t.weight = all.weight + slice->offset / 64 * group_bytes;
    t.bias = all.bias == nullptr ? nullptr : all.bias + slice->offset;
    t.out = data(slice->out);
    t.columns_out = width(slice->out);
  }
  together_ = p.count + 1;
  const auto* gate = later<backend::GatedActivation>(3);
  if (gate == nullptr || !is(fusions().gates_slices)) return;
  gate_in(later<backend::Slice>(1)->out, p.targets[1], *gate, p);
  together_ = 4;
  fold_gated(*gate, 3, p);
}

/// The second product and the gated activation.
void Executor::gate_in(backend::ValueId first_out, MatMulTarget other, const backend::GatedActivation& gate,
                       MatMulQuantParams& p) noexcept {
  const bool first = gate.gate == first_out;
  p.targets[1] = first ? other : p.targets[0];
  if (!first) p.targets[0] = other;
  p.targets[0].out = data(gate.out);
  p.count = 2;
  p.end.gated = true;
  p.end.gate = gate_of(gate);
  together_ = 3;
}

/// What a gated activation so many ops ahead makes becomes fragments if the next product wants them.
void Executor::fold_gated(const backend::GatedActivation& gate, std::int32_t ahead, MatMulQuantParams& p) noexcept {
  if (!folds(gate.out) || !is(fusions().before_product, ahead)) return;
  p.end.next = fold(fragments_of(gate.out, 1 - set_), gate.out);
}

/// Products that follow and read the same fragments; the last ones may be of another type.
MatMulQuantParams Executor::join(const backend::MatMul& op, MatMulQuantParams& p) noexcept {
  MatMulQuantParams others = p;
  others.count = 0;
  while (p.count + others.count < matmul_max_targets) {
    const std::int32_t n = p.count + others.count;
    const auto* next = later<backend::MatMul>(n);
    if (next == nullptr || next->in != op.in || fusions().is_more_than_product(index_ + n)) break;
    if (program_.placed(next->weight).form != WeightForm::fragments) break;
    const WeightType type = weight(next->weight).type;
    if (others.count == 0 && type == p.type) {
      p.targets[p.count++] = target_of(next->weight, next->bias, next->out);
      continue;
    }
    if (others.count == 0 && (p.rows > 8 || !matmul_mixes(p.type, type))) break;
    if (others.count > 0 && type != others.type) break;
    others.type = type;
    others.targets[others.count++] = target_of(next->weight, next->bias, next->out);
  }
  together_ = p.count + others.count;
  return others;
}

}  // namespace llminfer::cuda
