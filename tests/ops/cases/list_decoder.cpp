// Whole small decoders with the groups that a model's graph has: what a device fuses is tested here.
#include <cmath>

#include "case_builder.h"
#include "limits.h"

namespace llminfer::op_cases {
namespace {

struct Decoder {
  WeightType type = WeightType::f32;
  KvType cache = KvType::f32;
  std::int32_t width = 64;
  std::int32_t heads = 4;
  std::int32_t kv_heads = 2;
  std::int32_t layers = 2;
  std::int32_t window = 0;  ///< of every second layer
  std::int32_t vocabulary = 103;
  bool biases = false;      ///< of q, k, v and the output projection
  bool head_norms = false;  ///< of queries and keys
  bool post_norms = false;
  float cap = 0;
  bool sinks = false;
  std::int32_t experts = 0;  ///< 0: a dense feed-forward part
  backend::Activation activation = backend::Activation::silu;
  bool fused_projections = false;  ///< q, k, v in one product, gate and up in another
};

/// Adds the layers of one decoder to a case.
class DecoderCase {
 public:
  DecoderCase(const std::string& name, const Decoder& d)
      : b_(name), d_(d), head_width_(d.width / d.heads), ffn_(d.type == WeightType::f32 ? 96 : 2 * d.width) {}

  OpCase make() {
    b_.group(backend::GroupKind::embed, none);
    backend::Embed embed;
    embed.weight = b_.weight(d_.type, d_.width, d_.vocabulary, 1, 1.0);
    embed.out = b_.value(backend::Rows::tokens, d_.width);
    embed.scale = d_.post_norms ? std::sqrt(static_cast<float>(d_.width)) : 1.0F;
    b_.graph().vocabulary = d_.vocabulary;
    b_.push(embed);
    backend::RopeTable table;
    for (std::int32_t i = 0; i < head_width_ / 2; ++i) {
      table.inverse_frequency.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / head_width_)));
    }
    b_.graph().rope_tables.push_back(std::move(table));
    ValueId x = embed.out;
    for (layer_ = 0; layer_ < d_.layers; ++layer_) x = add_layer(x);
    b_.group(backend::GroupKind::head, none);
    const ValueId last = norm(x, d_.width);
    b_.graph().hidden = last;
    ValueId logits = b_.add(backend::MatMul{last, embed.weight, none, none}, last, d_.vocabulary);
    logits = b_.add(backend::Scale{logits, none, static_cast<float>(1.0 / std::sqrt(d_.width))}, logits, d_.vocabulary);
    if (d_.cap > 0) logits = b_.add(backend::Softcap{logits, none, d_.cap}, logits, d_.vocabulary);
    add_steps();
    b_.kv = {d_.cache, d_.cache};
    return b_.finish(logits, limits::decoder(d_.type, d_.cache));
  }

 private:
  ValueId norm(ValueId in, std::int32_t group) {
    return b_.add(backend::RmsNorm{in, b_.vector(group, 1.0, 0.2), none, group, 1e-5F}, in, b_.width(in));
  }
  ValueId product(ValueId in, std::int32_t width, bool bias) {
    const std::int32_t columns = b_.width(in);
    const WeightId weight = b_.weight(d_.type, columns, width, 1, 1.0 / std::sqrt(columns));
    return b_.add(backend::MatMul{in, weight, bias ? b_.vector(width, 0.0, 0.5) : none, none}, in, width);
  }
  ValueId rope(ValueId in, std::int32_t heads) {
    return b_.add(backend::Rope{in, none, 0, heads, head_width_, backend::RopePairing::half}, in, b_.width(in));
  }
  ValueId add(ValueId a, ValueId b) { return b_.add(backend::Add{a, b, none}, a, b_.width(a)); }

  ValueId add_layer(ValueId x) {
    b_.group(backend::GroupKind::qkv, layer_);
    const ValueId h = norm(x, d_.width);
    const std::int32_t q_width = d_.heads * head_width_;
    const std::int32_t kv_width = d_.kv_heads * head_width_;
    ValueId q = none, k = none, v = none;
    if (d_.fused_projections) {
      const ValueId all = product(h, q_width + 2 * kv_width, d_.biases);
      q = b_.slice(all, 0, q_width);
      k = b_.slice(all, q_width, kv_width);
      v = b_.slice(all, q_width + kv_width, kv_width);
    } else {
      q = product(h, q_width, d_.biases);
      k = product(h, kv_width, d_.biases);
      v = product(h, kv_width, d_.biases);
    }
    if (d_.head_norms) {
      q = norm(q, head_width_);
      k = norm(k, head_width_);
    }
    q = rope(q, d_.heads);
    k = rope(k, d_.kv_heads);
    const std::int32_t window = layer_ % 2 == 0 ? d_.window : 0;
    const backend::StateSlot slot = b_.state(window, d_.kv_heads, head_width_, head_width_);
    b_.push(backend::KvWrite{k, v, slot});
    b_.group(backend::GroupKind::attention, layer_);
    backend::PagedAttention op;
    op.q = q;
    op.slot = slot;
    op.heads = d_.heads;
    op.scale = static_cast<float>(1.0 / std::sqrt(head_width_));
    op.cap = d_.cap;
    if (d_.sinks) op.sinks = b_.vector(d_.heads, 0.0, 1.0);
    ValueId a = b_.add(op, q, q_width);
    b_.group(backend::GroupKind::attention_out, layer_);
    if (layer_ + 1 == d_.layers) {  // only rows wanted out go on
      a = b_.gather(a);
      x = b_.gather(x);
    }
    ValueId o = product(a, d_.width, d_.biases);
    if (d_.post_norms) o = norm(o, d_.width);
    x = add(x, o);
    b_.group(backend::GroupKind::ffn, layer_);
    ValueId f = norm(x, d_.width);
    f = d_.experts > 0 ? expert_part(f) : dense_part(f);
    if (d_.post_norms) f = norm(f, d_.width);
    return add(x, f);
  }

  ValueId activate(ValueId gate, ValueId up) {
    backend::GatedActivation op;
    op.gate = gate;
    op.up = up;
    op.kind = d_.activation;
    return b_.add(op, gate, b_.width(gate));
  }

  ValueId dense_part(ValueId f) {
    if (d_.fused_projections) {
      const ValueId both = product(f, 2 * ffn_, false);
      return product(activate(b_.slice(both, 0, ffn_), b_.slice(both, ffn_, ffn_)), d_.width, false);
    }
    const ValueId gate = product(f, ffn_, false);
    const ValueId up = product(f, ffn_, false);
    return product(activate(gate, up), d_.width, false);
  }

  ValueId expert_product(ValueId in, ValueId route, std::int32_t columns, std::int32_t width) {
    backend::MoeMatMul op;
    op.in = in;
    op.route = route;
    op.weight = b_.weight(d_.type, columns, width, d_.experts, 1.0 / std::sqrt(columns));
    op.used = used;
    if (d_.biases) {
      std::vector<float> values(static_cast<std::size_t>(d_.experts * width));
      for (float& v : values) v = static_cast<float>(0.3 * b_.random().normal());
      op.bias = b_.float_weight(width, d_.experts, values);
    }
    return b_.add(op, in, used * width);
  }

  ValueId expert_part(ValueId f) {
    const WeightId router = b_.weight(WeightType::f32, d_.width, d_.experts, 1, 2.0 / std::sqrt(d_.width));
    const ValueId logits = b_.add(backend::MatMul{f, router, none, none}, f, d_.experts);
    backend::MoeRoute route;
    route.in = logits;
    route.experts = d_.experts;
    route.used = used;
    route.gating = backend::Gating::softmax_selected;
    const ValueId chosen = b_.add(route, logits, 2 * used);
    const ValueId gate = expert_product(f, chosen, d_.width, ffn_);
    const ValueId up = expert_product(f, chosen, d_.width, ffn_);
    const ValueId down = expert_product(activate(gate, up), chosen, ffn_, d_.width);
    return b_.add(backend::MoeCombine{down, chosen, none, used}, down, d_.width);
  }

  void add_steps() {
    b_.step({{0, 0, 37}, {1, 0, 5}}).output_rows = {36, 41};
    b_.step({{1, 5, 1}, {0, 37, 1}});
    b_.step({{2, 0, 20}, {1, 6, 1}, {0, 38, 30}}).output_rows = {3, 20, 50};
    b_.step({{2, 20, 12}}).output_rows = {};
    CaseStep& best = b_.step({{0, 68, 1}, {1, 7, 1}, {2, 32, 1}});
    best.kind = backend::OutputKind::hidden;
  }

  static constexpr std::int32_t used = 2;
  CaseBuilder b_;
  const Decoder& d_;
  std::int32_t head_width_;
  std::int32_t ffn_;
  std::int32_t layer_ = 0;
};

void add(CaseList& list, const std::string& name, const Decoder& decoder) {
  list.push_back({"decoder/" + name, false, [=](const std::string& n) { return DecoderCase(n, decoder).make(); }});
}

}  // namespace

void add_decoder_cases(CaseList& list) {
  Decoder plain;
  add(list, "plain f32", plain);
  Decoder fused = plain;
  fused.fused_projections = true;
  add(list, "fused projections f32", fused);
  Decoder windowed = plain;
  windowed.window = 9;
  windowed.layers = 3;
  windowed.head_norms = true;
  windowed.post_norms = true;
  windowed.cap = 20;
  windowed.activation = backend::Activation::gelu_tanh;
  add(list, "windows, caps and more norms f32", windowed);
  Decoder experts = plain;
  experts.experts = 5;
  experts.sinks = true;
  experts.biases = true;
  experts.window = 16;
  experts.activation = backend::Activation::swiglu_clip;
  add(list, "experts, sinks and biases f32", experts);
  experts.type = WeightType::q8_0;
  add(list, "experts, sinks and biases q8_0", experts);
  for (const WeightType type : all_weight_types()) {
    if (type == WeightType::f32) continue;
    Decoder d = plain;
    d.type = type;
    d.cache = KvType::f16;
    d.width = 256;
    d.biases = true;
    add(list, "plain " + lower_name(type), d);
  }
  Decoder quantized = windowed;
  quantized.type = WeightType::q8_0;
  quantized.cache = KvType::f16;
  quantized.width = 256;
  add(list, "windows, caps and more norms q8_0", quantized);
  Decoder fused_quantized = quantized;
  fused_quantized.head_norms = fused_quantized.post_norms = false;
  fused_quantized.fused_projections = fused_quantized.biases = true;
  add(list, "fused projections q8_0", fused_quantized);
  Decoder experts_quantized = experts;
  experts_quantized.type = WeightType::q8_0;
  experts_quantized.cache = KvType::f16;
  experts_quantized.width = 128;
  add(list, "experts, sinks and biases q8_0", experts_quantized);
  for (const KvType cache : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::q4_0}) {
    Decoder d = windowed;
    d.cache = cache;
    d.width = 128;
    add(list, "windows, cache " + std::string(to_string(cache)), d);
  }
}

}  // namespace llminfer::op_cases
