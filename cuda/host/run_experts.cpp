// The choice of experts, their products and sums as the parameters of their kernels.
#include <algorithm>

#include "host/executor.h"
#include "host/repack.h"
#include "kernels/experts.h"
#include "kernels/matmul_plain.h"
#include "kernels/matmul_quant.h"

namespace llminfer::cuda {
namespace {

/// Whether an expert has two tiles of rows and more, by the mean: products are those of a prompt then.
bool many_rows(std::int64_t tokens, std::int64_t used, std::int64_t experts) {
  return tokens > most_rows_folded && tokens * used > 16 * experts;
}

}  // namespace

ExpertTiles Executor::sorted_of(std::int32_t tokens, std::int32_t used, std::int64_t experts) const noexcept {
  const std::int64_t most = program_.plan().most_tiles, count = expert_tiles(tokens, used, experts);
  if (count > most || experts > most_experts_sorted) return {};  // no product wants them
  ExpertTiles t;
  t.tiles = space_.memory.at<ExpertTile>(program_.plan().tiles);
  t.rows = reinterpret_cast<std::int32_t*>(t.tiles + most);
  t.tokens = t.rows + 8 * most;
  t.count = static_cast<std::int32_t>(count);
  if (many_rows(tokens, used, experts)) {
    t.runs = reinterpret_cast<ExpertRun*>(t.tokens + 8 * most);
    t.run_count = static_cast<std::int32_t>(expert_runs(count, experts));
  }
  return t;
}

cudaError_t Executor::product_of_experts(const backend::MoeMatMul& op) noexcept {
  const backend::Weight& w = weight(op.weight);
  const ExpertTiles sorted = sorted_of(rows(op.in), op.used, w.experts);
  // Few tokens are read where they stand, without bringing them into the order of the experts.
  const bool stand = width(op.in) == w.columns && rows(op.in) <= most_rows_folded && !(prepared_ == op.in && sorted_);
  if (prepared_ != op.in || sorted_ == stand) {
    const FragmentsParams f = stand ? fragments_of(op.in, 0) : fragments_of(op.in, w.columns, sorted, 0);
    if (const cudaError_t e = prepare(f, op.in, !stand); e != cudaSuccess) return e;
  }
  const FragmentsParams f = stand ? fragments_of(op.in, set_) : fragments_of(op.in, w.columns, sorted, set_);
  MatMulQuantParams p = product_with(f, w);
  p.targets[0] = target_of(op.weight, op.bias, op.out);
  p.tiles = sorted.tiles;
  p.tile_rows = sorted.rows;
  if (stand) p.tile_tokens = sorted.tokens;
  p.in_rows = f.rows;
  p.rows = 8 * sorted.count;
  p.runs = sorted.runs;
  p.run_count = sorted.run_count;
  p.expert_bytes = fragment_layout(w.type, w.rows, w.columns).bytes;
  const auto* other = later<backend::MoeMatMul>(1);
  const auto* gate = later<backend::GatedActivation>(2);
  const auto* combine = later<backend::MoeCombine>(1);
  if (gate != nullptr && is(fusions().gates_next)) {
    gate_in(op.out, target_of(other->weight, other->bias, other->out), *gate, p);
    // Those of a run would be made by one block.
    if (is(fusions().before_product, 2) && sorted.runs == nullptr) {
      p.end.next = fold(fragments_of(gate->out, w.rows, sorted, 1 - set_), gate->out, true);
      p.end.next.rows_wanted = sorted.rows;
    }
  } else if (combine != nullptr && is(fusions().combines_next) && folds(combine->out)) {
    p.end.combine = combine_of(*combine, 1);
    p.end.column_arrivals = space_.memory.at<unsigned>(program_.plan().columns);
  }
  return launch(p, stream());
}

RouteParams Executor::route_of(const backend::MoeRoute& op) const noexcept {
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
  return p;
}

cudaError_t Executor::run_one(const backend::MoeRoute& op) noexcept { return launch(route_of(op), stream()); }

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

/// Of the combination so many ops ahead, with the addition behind it and the norm behind that if it may.
CombineParams Executor::combine_of(const backend::MoeCombine& op, std::int32_t ahead) noexcept {
  CombineParams p;
  p.in = data(op.in);
  p.route = data(op.route);
  p.out = data(op.out);
  p.rows = rows(op.in);
  p.used = op.used;
  p.width = width(op.out);
  p.arrivals = arrivals();
  together_ = ahead + 1;
  const auto* add = later<backend::Add>(ahead + 1);
  if (add != nullptr && is(fusions().adds_next, ahead)) {
    p.residual = data(add->a == op.out ? add->b : add->a);
    p.out = data(add->out);
    together_ = ahead + 2;
    p.next = fold_norm(add->out, ahead + 2);
  }
  return p;
}

cudaError_t Executor::run_one(const backend::MoeCombine& op) noexcept { return launch(combine_of(op, 0), stream()); }

}  // namespace llminfer::cuda
