// The choice of experts, their products and sums as the parameters of their kernels.
#include <algorithm>

#include "host/executor.h"
#include "host/repack.h"
#include "kernels/experts.h"
#include "kernels/matmul_plain.h"
#include "kernels/matmul_quant.h"

namespace llminfer::cuda {

ExpertTiles Executor::sorted_of(std::int32_t tokens, std::int32_t used, std::int64_t experts) const noexcept {
  const std::int64_t most = program_.plan().most_tiles, count = expert_tiles(tokens, used, experts);
  if (count > most || experts > most_experts_sorted) return {};  // no product wants them
  ExpertTiles t;
  t.tiles = space_.memory.at<ExpertTile>(program_.plan().tiles);
  t.rows = reinterpret_cast<std::int32_t*>(t.tiles + most);
  t.tokens = t.rows + 8 * most;
  t.count = static_cast<std::int32_t>(count);
  return t;
}

cudaError_t Executor::product_of_experts(const backend::MoeMatMul& op) noexcept {
  const backend::Weight& w = weight(op.weight);
  const ExpertTiles sorted = sorted_of(rows(op.in), op.used, w.experts);
  if (prepared_ != op.in || !sorted_) {
    const cudaError_t e = prepare(fragments_of(op.in, w.columns, sorted, 0), op.in, true);
    if (e != cudaSuccess) return e;
  }
  MatMulQuantParams p = product_with(fragments_of(op.in, w.columns, sorted, set_), w);
  p.targets[0] = target_of(op.weight, op.bias, op.out);
  p.tiles = sorted.tiles;
  p.tile_rows = sorted.rows;
  p.expert_bytes = fragment_layout(w.type, w.rows, w.columns).bytes;
  p.most_tile_rows = std::min(8, rows(op.in));
  const auto* other = later<backend::MoeMatMul>(1);
  const auto* gate = later<backend::GatedActivation>(2);
  if (gate != nullptr && is(fusions().gates_next)) {
    gate_in(op.out, target_of(other->weight, other->bias, other->out), *gate, p);
    if (is(fusions().before_product, 2)) {
      p.end.next = fold(fragments_of(gate->out, w.rows, sorted, 1 - set_), gate->out, true);
      p.end.next.rows_wanted = sorted.rows;
    }
  }
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::MoeRoute& op) noexcept {
  RouteParams p;
  p.in = data(op.in);
  p.bias = program_.floats(op.selection_bias);
  p.out = data(op.out);
  p.rows = rows(op.in);
  p.experts = op.experts;
  p.used = op.used;
  p.gating = op.gating == backend::Gating::softmax   ? RouteGating::softmax
             : op.gating == backend::Gating::sigmoid ? RouteGating::sigmoid
                                                     : RouteGating::softmax_selected;
  p.normalize = op.normalize;
  p.scale = op.scale;
  p.sorted = sorted_of(p.rows, op.used, op.experts);
  p.arrivals = arrivals();
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::MoeMatMul& op) noexcept {
  if (program_.placed(op.weight).form == WeightForm::fragments) return product_of_experts(op);
  const backend::Weight& w = weight(op.weight);
  MatMulPlainParams p;
  p.weight = program_.file_bytes(op.weight);
  p.bias = program_.floats(op.bias);
  p.in = data(op.in);
  p.route = data(op.route);
  p.out = data(op.out);
  p.row_bytes = static_cast<std::int64_t>(program_.placed(op.weight).row_bytes);
  p.rows = rows(op.in) * op.used;
  p.columns_in = static_cast<std::int32_t>(w.columns);
  p.columns_out = static_cast<std::int32_t>(w.rows);
  p.used = op.used;
  p.in_per_token = width(op.in) == w.columns && op.used > 1;
  p.type = w.type;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::MoeCombine& op) noexcept {
  CombineParams p;
  p.in = data(op.in);
  p.route = data(op.route);
  p.out = data(op.out);
  p.rows = rows(op.in);
  p.used = op.used;
  p.width = width(op.out);
  p.arrivals = arrivals();
  const auto* add = later<backend::Add>(1);
  if (add != nullptr && is(fusions().adds_next)) {
    p.residual = data(add->a == op.out ? add->b : add->a);
    p.out = data(add->out);
    together_ = 2;
    p.next = fold_norm(add->out, 2);
  }
  return launch(p, stream());
}

}  // namespace llminfer::cuda
