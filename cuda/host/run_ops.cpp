// Each op of the graph as the parameters of its kernel.
#include <algorithm>

#include "host/executor.h"
#include "host/repack.h"
#include "kernels/attention_mma.h"
#include "kernels/attention_plain.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/experts.h"
#include "kernels/kv_write.h"
#include "kernels/matmul_plain.h"
#include "kernels/matmul_quant.h"
#include "kernels/norms.h"
#include "kernels/rope.h"
#include "kernels/rope_kv.h"

namespace llminfer::cuda {
namespace {

Gate gate_of(const backend::GatedActivation& op) noexcept {
  Gate g;
  g.kind = op.kind == backend::Activation::silu        ? Elementwise::silu
           : op.kind == backend::Activation::gelu_tanh ? Elementwise::gelu_tanh
                                                       : Elementwise::swiglu_clip;
  g.x = op.alpha;
  g.y = op.limit;
  return g;
}

}  // namespace

cudaError_t Executor::run_one(const backend::Embed& op) noexcept {
  EmbedParams p;
  p.weight = program_.file_bytes(op.weight);
  p.tokens = space_.step.tokens();
  p.out = data(op.out);
  p.row_bytes = static_cast<std::int64_t>(program_.placed(op.weight).row_bytes);
  p.rows = rows(op.out);
  p.width = width(op.out);
  p.scale = op.scale;
  p.type = weight(op.weight).type;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::RmsNorm& op) noexcept {
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

cudaError_t Executor::run_one(const backend::LayerNorm& op) noexcept {
  NormParams p;
  p.in = data(op.in);
  p.weight = program_.floats(op.weight);
  p.bias = program_.floats(op.bias);
  p.out = data(op.out);
  p.groups = rows(op.in);
  p.group = width(op.in);
  p.eps = op.eps;
  p.centred = true;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::MatMul& op) noexcept {
  if (program_.placed(op.weight).form == WeightForm::fragments) return product_of_fragments(op);
  MatMulPlainParams p;
  p.weight = program_.file_bytes(op.weight);
  p.bias = program_.floats(op.bias);
  p.in = data(op.in);
  p.out = data(op.out);
  p.row_bytes = static_cast<std::int64_t>(program_.placed(op.weight).row_bytes);
  p.rows = rows(op.in);
  p.columns_in = width(op.in);
  p.columns_out = width(op.out);
  p.type = weight(op.weight).type;
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

/// Of the norm behind an addition that is part of a launch, which becomes part of it too if it may.
FragmentsParams Executor::fold_norm(backend::ValueId in) noexcept {
  const auto* norm = later<backend::RmsNorm>(2);
  if (norm == nullptr || norm->in != in || !folds(norm->out)) return {};
  if (!is(fusions().into_fragments, 2) && !is(fusions().also_into_fragments, 2)) return {};
  together_ = 3;
  return fold(fragments_of(*norm, 2, 1 - set_), norm->out);
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
  return p;
}

cudaError_t Executor::product_of_fragments(const backend::MatMul& op) noexcept {
  if (prepared_ != op.in || sorted_) {
    if (const cudaError_t e = prepare(fragments_of(op.in, 0), op.in); e != cudaSuccess) return e;
  }
  MatMulQuantParams p = product_with(fragments_of(op.in, set_), weight(op.weight));
  p.targets[0] = target_of(op.weight, op.bias, op.out);
  const auto* add = later<backend::Add>(1);
  const auto* other = later<backend::MatMul>(1);
  const auto* gate = later<backend::GatedActivation>(2);
  if (add != nullptr && is(fusions().adds_next)) {
    add_in(op, *add, p);
  } else if (gate != nullptr && is(fusions().gates_next)) {
    gate_in(op.out, target_of(other->weight, other->bias, other->out), *gate, p);
    if (folds(gate->out) && is(fusions().before_product, 2)) {
      p.end.next = fold(fragments_of(gate->out, 1 - set_), gate->out);
    }
  } else {
    join(op, p);
  }
  return launch(p, stream());
}

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

/// The addition that follows, and the norm behind that if it becomes fragments.
void Executor::add_in(const backend::MatMul& op, const backend::Add& add, MatMulQuantParams& p) noexcept {
  p.targets[0].residual = data(add.a == op.out ? add.b : add.a);
  p.targets[0].out = data(add.out);
  together_ = 2;
  p.end.next = fold_norm(add.out);
}

/// The second product and the gated activation.
void Executor::gate_in(backend::ValueId first_out, const MatMulTarget& other, const backend::GatedActivation& gate,
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

/// Products that follow and read the same fragments.
void Executor::join(const backend::MatMul& op, MatMulQuantParams& p) noexcept {
  while (p.count < matmul_max_targets) {
    const auto* next = later<backend::MatMul>(p.count);
    if (next == nullptr || next->in != op.in || weight(next->weight).type != p.type) break;
    if (program_.placed(next->weight).form != WeightForm::fragments) break;
    if (is(fusions().adds_next, p.count) || is(fusions().gates_next, p.count)) break;
    p.targets[p.count++] = target_of(next->weight, next->bias, next->out);
  }
  together_ = p.count;
}

RopeParams Executor::rope_of(const backend::Rope& op) const noexcept {
  const backend::RopeTable& table = program_.graph().rope_tables[static_cast<std::size_t>(op.table)];
  RopeParams p;
  p.in = data(op.in);
  p.out = data(op.out);
  p.positions = space_.step.positions();
  p.inverse_frequency = program_.frequencies(op.table);
  p.rows = rows(op.in);
  p.heads = op.heads;
  p.head_width = op.head_width;
  p.pairs = static_cast<std::int32_t>(table.inverse_frequency.size());
  p.magnitude = table.magnitude;
  p.adjacent = op.pairing == backend::RopePairing::interleaved;
  return p;
}

/// Keys, and values where they are of the same type: `count` says which.
KvWriteParams Executor::cache_of(const backend::KvWrite& op) const noexcept {
  KvWriteParams p;
  p.in[0] = data(op.k);
  p.sides[0] = kv_.side(op.slot, false);
  p.step = space_.step.of_group(op.slot.group);
  p.tokens = rows(op.k);
  p.heads = program_.graph().states[static_cast<std::size_t>(op.slot.group)].heads;
  if (op.v == backend::none) return p;
  p.in[1] = data(op.v);
  p.sides[1] = kv_.side(op.slot, true);
  if (p.sides[0].type == p.sides[1].type) p.count = 2;
  return p;
}

cudaError_t Executor::run_one(const backend::Rope& op) noexcept {
  if (is(fusions().rotates_into_cache)) {
    const auto* keys = later<backend::Rope>(1);
    const auto* write = later<backend::KvWrite>(2);
    if (keys != nullptr && write != nullptr && op.head_width <= rope_kv_max_width) {
      RopeKvParams p{rope_of(op), cache_of(*write)};
      p.cache.in[0] = data(keys->in);
      if (p.cache.count == 2) {
        together_ = 3;
        return launch(p, stream());
      }
    }
  }
  return launch(rope_of(op), stream());
}

cudaError_t Executor::run_one(const backend::KvWrite& op) noexcept {
  KvWriteParams p = cache_of(op);
  cudaError_t e = launch(p, stream());
  if (e != cudaSuccess || op.v == backend::none || p.count == 2) return e;
  p.in[0] = p.in[1];
  p.sides[0] = p.sides[1];
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::PagedAttention& op) noexcept {
  const backend::StateGroup& group = program_.graph().states[static_cast<std::size_t>(op.slot.group)];
  AttentionParams p;
  p.q = data(op.q);
  p.sinks = program_.floats(op.sinks);
  p.out = data(op.out);
  p.k = kv_.side(op.slot, false);
  p.v = kv_.side(op.slot, true);
  p.step = space_.step.of_group(op.slot.group);
  p.tokens = rows(op.q);
  p.heads = op.heads;
  p.kv_heads = group.heads;
  p.window = group.window;
  p.scale = op.scale;
  p.cap = op.cap;
  p.full = op.mode == backend::AttentionMode::full;
  if (!attention_mma_takes(p.k.type, p.v.type, p.k.width, p.v.width, p.heads / p.kv_heads)) {
    return launch_attention_plain(p, stream());
  }
  const std::int32_t longest = p.window > 0 && !p.full ? std::min(shape_.longest, p.window) : shape_.longest;
  AttentionRoom room;
  room.ranges = attention_ranges(p.tokens, p.kv_heads, longest);
  room.partials = space_.memory.at<float>(program_.plan().partials);
  room.merges = space_.memory.at<unsigned>(program_.plan().merges);
  room.arrivals = arrivals();
  if (folds(op.out) && is(fusions().before_product)) room.next = fold(fragments_of(op.out, 1 - set_), op.out);
  return launch_attention_mma(p, room, stream());
}

/// The parameters that all ops on single values share.
ElementwiseParams Executor::elementwise(Elementwise kind, backend::ValueId a, backend::ValueId b,
                                        backend::ValueId out) const noexcept {
  ElementwiseParams p;
  p.a = data(a);
  p.b = b == backend::none ? nullptr : data(b);
  p.out = data(out);
  p.count = std::int64_t{rows(out)} * width(out);
  p.gate.kind = kind;
  return p;
}

cudaError_t Executor::run_one(const backend::GatedActivation& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::silu, op.gate, op.up, op.out);
  p.gate = gate_of(op);
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Add& op) noexcept {
  return launch(elementwise(Elementwise::add, op.a, op.b, op.out), stream());
}

cudaError_t Executor::run_one(const backend::Scale& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::scale, op.in, backend::none, op.out);
  p.gate.x = op.factor;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Softcap& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::softcap, op.in, backend::none, op.out);
  p.gate.x = op.cap;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Slice& op) noexcept {
  CopyColumnsParams p;
  p.in = data(op.in);
  p.out = data(op.out);
  p.rows = rows(op.out);
  p.in_width = width(op.in);
  p.offset = op.offset;
  p.width = width(op.out);
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::GatherRows& op) noexcept {
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
    p.next = fold_norm(add->out);
  }
  return launch(p, stream());
}

}  // namespace llminfer::cuda
