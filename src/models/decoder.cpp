#include "models/decoder.h"

#include <cmath>

#include "core/fail.h"
#include "models/weight_binder.h"

namespace llminfer::models {
namespace {

using backend::GroupKind;
using backend::none;
using backend::ValueId;
using backend::WeightId;
using format::Role;

struct KeptGraph {
  std::shared_ptr<core::Memory> memory;
  backend::Graph graph;
};

/// Builds the layers of one model. `x_` is the residual stream.
class DecoderBuilder {
 public:
  DecoderBuilder(const format::ModelFile& file, const format::HyperParameters& hyper, const DecoderSpec& spec,
                 const BuildOptions& options)
      : file_(file),
        hyper_(hyper),
        spec_(spec),
        options_(options),
        b_(options.memory.get()),
        weights_(file, b_, options) {}

  ModelGraph run() {
    mark_rope_tensors();
    embed();
    for (std::size_t l = 0; l < spec_.layers.size(); ++l) {
      layer_ = static_cast<int>(l);
      attention(spec_.layers[l], l + 1 == spec_.layers.size());
      feed_forward(spec_.layers[l]);
    }
    return head();
  }

 private:
  void mark_rope_tensors() {
    for (const format::TensorInfo& t : file_.tensors()) {
      const bool rope =
          t.role == Role::rope_freqs || t.role == Role::rope_factors_long || t.role == Role::rope_factors_short;
      if (rope) weights_.mark_used(t);
    }
  }

  WeightId matrix(Role role, std::int64_t columns, std::int64_t rows, backend::Cut cut) {
    WeightShape shape;
    shape.columns = columns;
    shape.rows = rows;
    shape.cut = cut;
    return weights_.matrix(role, layer_, shape);
  }
  WeightId bias(Role role, std::int64_t columns) { return weights_.optional_vector(role, layer_, columns, true); }
  ValueId norm(ValueId in, Role role, std::int32_t group) {
    return b_.rms_norm(in, weights_.vector(role, layer_, group), group, spec_.eps);
  }
  ValueId project(ValueId in, Role role, std::int64_t rows, backend::Cut cut) {
    const WeightId weight = matrix(role, b_.width(in), rows, cut);
    return b_.matmul(in, weight, bias(role, rows));
  }
  /// x + scale * branch, with the post norm where the model has one.
  void add_branch(ValueId branch, Role post_norm) {
    if (spec_.post_norms) branch = norm(branch, post_norm, hyper_.embedding_length);
    if (spec_.residual_scale != 1.0F) branch = b_.scale(branch, spec_.residual_scale);
    x_ = b_.add(x_, branch);
  }

  void embed() {
    b_.group(GroupKind::embed);
    layer_ = -1;
    const WeightId weight = matrix(Role::token_embd, hyper_.embedding_length, hyper_.vocab_size, backend::Cut::rows);
    x_ = b_.embed(weight, spec_.embedding_scale);
  }

  struct Qkv {
    ValueId q, k, v;
  };
  Qkv project_qkv(ValueId h, const LayerSpec& layer) {
    const std::int32_t q_width = layer.heads * layer.k_width;
    const std::int32_t k_width = layer.heads_kv * layer.k_width;
    const std::int32_t v_width = layer.heads_kv * layer.v_width;
    if (weights_.has(Role::attn_qkv, layer_)) {
      const ValueId all = project(h, Role::attn_qkv, std::int64_t{q_width} + k_width + v_width, backend::Cut::heads);
      return {b_.slice(all, 0, q_width), b_.slice(all, q_width, k_width), b_.slice(all, q_width + k_width, v_width)};
    }
    const ValueId q = project(h, Role::attn_q, q_width, backend::Cut::heads);
    const ValueId k = project(h, Role::attn_k, k_width, backend::Cut::heads);
    return {q, k, project(h, Role::attn_v, v_width, backend::Cut::heads)};
  }

  void attention(const LayerSpec& layer, bool last) {
    b_.group(GroupKind::qkv, layer_);
    Qkv qkv = project_qkv(norm(x_, Role::attn_norm, hyper_.embedding_length), layer);
    if (spec_.qk_norm) {
      qkv.q = norm(qkv.q, Role::attn_q_norm, layer.k_width);
      qkv.k = norm(qkv.k, Role::attn_k_norm, layer.k_width);
    }
    if (!layer.rope.inverse_frequency.empty()) {
      const std::int32_t table = b_.rope_table(layer.rope);
      qkv.q = b_.rope(qkv.q, table, layer.heads, spec_.pairing);
      qkv.k = b_.rope(qkv.k, table, layer.heads_kv, spec_.pairing);
    }
    backend::PagedAttention op;
    op.slot = b_.state(layer.window, layer.heads_kv, layer.k_width, layer.v_width);
    b_.kv_write(qkv.k, qkv.v, op.slot);

    b_.group(GroupKind::attention, layer_);
    op.q = qkv.q;
    op.heads = layer.heads;
    op.scale = spec_.attention_scale > 0 ? spec_.attention_scale
                                         : static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.k_width)));
    op.cap = spec_.attention_cap;
    if (spec_.sinks) op.sinks = weights_.vector(Role::attn_sinks, layer_, layer.heads);
    ValueId out = b_.attention(op);

    b_.group(GroupKind::attention_out, layer_);
    if (last) {  // what follows works row by row: only the rows wanted out go on
      out = b_.gather_rows(out);
      x_ = b_.gather_rows(x_);
    }
    out = project(out, Role::attn_output, hyper_.embedding_length, backend::Cut::columns);
    add_branch(out, Role::post_attn_norm);
  }

  void feed_forward(const LayerSpec& layer) {
    b_.group(GroupKind::ffn, layer_);
    const ValueId h = norm(x_, spec_.ffn_norm, hyper_.embedding_length);
    add_branch(layer.moe ? experts(h) : dense(h, layer.feed_forward), Role::post_ffn_norm);
  }

  ValueId dense(ValueId h, std::int32_t width) {
    if (width <= 0) core::fail(ErrorCode::corrupt, "feed_forward_length of layer {} is {}", layer_, width);
    ValueId gate = none;
    ValueId up = none;
    if (weights_.has(Role::ffn_gate, layer_)) {
      gate = project(h, Role::ffn_gate, width, backend::Cut::rows);
      up = project(h, Role::ffn_up, width, backend::Cut::rows);
    } else {  // one matrix: gate rows, then up rows
      const ValueId both = project(h, Role::ffn_up, 2 * std::int64_t{width}, backend::Cut::rows);
      gate = b_.slice(both, 0, width);
      up = b_.slice(both, width, width);
    }
    const ValueId act = b_.gated_activation(gate, up, spec_.activation);
    return project(act, Role::ffn_down, hyper_.embedding_length, backend::Cut::columns);
  }

  WeightId expert_matrix(Role role, std::int64_t columns, std::int64_t rows) {
    WeightShape shape;
    shape.columns = columns;
    shape.rows = rows;
    shape.experts = spec_.moe.experts;
    shape.cut = backend::Cut::experts;
    return weights_.matrix(role, layer_, shape);
  }
  WeightId expert_bias(Role role, std::int64_t columns) {
    if (!weights_.has(role, layer_, true)) return none;
    WeightShape shape;
    shape.columns = columns;
    shape.rows = spec_.moe.experts;
    shape.as_f32 = true;
    return weights_.matrix(role, layer_, shape, true);
  }

  ValueId experts(ValueId h) {
    const MoeSpec& moe = spec_.moe;
    if (moe.width <= 0) core::fail(ErrorCode::corrupt, "expert_feed_forward_length is {}", moe.width);
    WeightShape router;
    router.columns = hyper_.embedding_length;
    router.rows = moe.experts;
    router.keep_type = true;
    const WeightId router_weight = weights_.matrix(Role::ffn_gate_inp, layer_, router);
    backend::MoeRoute route;
    route.in = b_.matmul(h, router_weight, bias(Role::ffn_gate_inp, moe.experts));
    route.selection_bias = bias(Role::ffn_exp_probs, moe.experts);
    route.experts = moe.experts;
    route.used = moe.used;
    route.gating = moe.gating;
    route.normalize = moe.normalize;
    route.scale = moe.scale;
    const ValueId r = b_.moe_route(route);
    const auto apply = [&](ValueId in, Role role, std::int64_t columns, std::int64_t rows) {
      return b_.moe_matmul(in, r, moe.used, expert_matrix(role, columns, rows), expert_bias(role, rows));
    };
    const ValueId gate = apply(h, Role::ffn_gate_exps, hyper_.embedding_length, moe.width);
    const ValueId up = apply(h, Role::ffn_up_exps, hyper_.embedding_length, moe.width);
    const ValueId act = b_.gated_activation(gate, up, spec_.activation);
    const ValueId down = apply(act, Role::ffn_down_exps, moe.width, hyper_.embedding_length);
    return b_.moe_combine(down, r, moe.used);
  }

  ModelGraph head() {
    b_.group(GroupKind::head);
    layer_ = -1;
    const ValueId hidden = norm(x_, Role::output_norm, hyper_.embedding_length);
    const Role role = weights_.has(Role::output, -1) ? Role::output : Role::token_embd;
    const WeightId weight = matrix(role, hyper_.embedding_length, hyper_.vocab_size, backend::Cut::rows);
    ValueId logits = b_.matmul(hidden, weight, role == Role::output ? bias(Role::output, hyper_.vocab_size) : none);
    if (spec_.logit_scale != 1.0F) logits = b_.scale(logits, spec_.logit_scale);
    if (spec_.logit_cap > 0) logits = b_.softcap(logits, spec_.logit_cap);
    weights_.require_all_used();
    const int context = options_.context > 0 ? options_.context : hyper_.context_length;
    ModelGraph out;
    // The graph goes with the memory of its lists, whoever holds it last.
    auto kept = std::make_shared<const KeptGraph>(
        KeptGraph{options_.memory, b_.finish(logits, hidden, hyper_.vocab_size, context)});
    out.graph = std::shared_ptr<const backend::Graph>(kept, &kept->graph);
    out.tensors = weights_.take_tensors();
    return out;
  }

  const format::ModelFile& file_;
  const format::HyperParameters& hyper_;
  const DecoderSpec& spec_;
  const BuildOptions& options_;
  graph::GraphBuilder b_;
  WeightBinder weights_;
  ValueId x_ = none;
  int layer_ = -1;
};

}  // namespace

ModelGraph build_decoder(const format::ModelFile& file, const format::HyperParameters& hyper, const DecoderSpec& spec,
                         const BuildOptions& options) {
  if (spec.layers.empty()) core::fail(ErrorCode::corrupt, "a model without layers");
  return DecoderBuilder(file, hyper, spec, options).run();
}

}  // namespace llminfer::models
