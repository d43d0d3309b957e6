// Small decoders for tests of whole steps.
#pragma once

#include <cmath>
#include <cstring>

#include "catch.h"
#include "graph/op_io.h"
#include "host/cuda_backend.h"
#include "ops/cases/case_builder.h"

namespace ptxsim::tests {
using namespace llminfer;  // NOLINT(google-build-using-namespace): a test
using backend::none;
using backend::ValueId;

inline constexpr std::int32_t head = 64, layers = 2, vocabulary = 80, sequences = 9;

/// What a decoder differs in.
struct Kind {
  WeightType type = WeightType::q4_0;
  WeightType values = WeightType::q4_0;  ///< of the weight that makes them
  bool experts = false;
  std::int32_t inner = 96;   ///< width inside an expert
  std::int32_t width = 128;  ///< a query head for each 64
  bool head_norms = false;
  bool post_norms = false;
  bool fused = false;  ///< queries, keys and values in one product, gate and up in another
  float cap = 0;       ///< of logits
};

/// Two query heads or more on one KV head, then a feed-forward part, in each layer.
class Decoder {
 public:
  explicit Decoder(const Kind& kind) : kind_(kind), width_(kind.width) {}

  op_cases::OpCase make() {
    b_.graph().vocabulary = vocabulary;
    backend::Embed embed;
    embed.weight = b_.weight(kind_.type, width_, vocabulary, 1, 1.0);
    embed.out = b_.value(backend::Rows::tokens, width_);
    b_.push(embed);
    backend::RopeTable table;
    for (int i = 0; i < head / 2; ++i) {
      table.inverse_frequency.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / head));
    }
    b_.graph().rope_tables.push_back(table);
    ValueId x = embed.out;
    for (int l = 0; l < layers; ++l) x = layer(x, l + 1 == layers);
    const ValueId last = norm(x, width_);
    b_.graph().hidden = last;
    b_.graph().context = 320;
    ValueId logits = b_.add(backend::MatMul{last, embed.weight, none, none}, last, vocabulary);
    if (kind_.cap > 0) logits = b_.add(backend::Softcap{logits, none, kind_.cap}, logits, vocabulary);
    return b_.finish(logits, 1);
  }

 private:
  ValueId product(ValueId in, std::int32_t out, WeightType type) {
    const std::int32_t columns = b_.width(in);
    return b_.add(backend::MatMul{in, b_.weight(type, columns, out, 1, 1.0 / std::sqrt(columns)), none, none}, in, out);
  }
  ValueId product(ValueId in, std::int32_t out) { return product(in, out, kind_.type); }
  ValueId norm(ValueId in, std::int32_t group) {
    return b_.add(backend::RmsNorm{in, b_.vector(group, 1.0, 0.2), none, group, 1e-5F}, in, b_.width(in));
  }
  ValueId rope(ValueId in) {
    const std::int32_t width = b_.width(in);
    return b_.add(backend::Rope{in, none, 0, width / head, head, backend::RopePairing::half}, in, width);
  }
  ValueId add(ValueId x, ValueId branch) {
    if (kind_.post_norms) branch = norm(branch, width_);
    return b_.add(backend::Add{x, branch, none}, x, width_);
  }

  ValueId layer(ValueId x, bool last) {
    const ValueId h = norm(x, width_);
    ValueId q = none, k = none, v = none;
    if (kind_.fused) {
      const ValueId all = product(h, width_ + 2 * head);
      q = b_.slice(all, 0, width_);
      k = b_.slice(all, width_, head);
      v = b_.slice(all, width_ + head, head);
    } else {
      q = product(h, width_);
      k = product(h, head);
      v = product(h, head, kind_.values);
    }
    if (kind_.head_norms) {
      q = norm(q, head);
      k = norm(k, head);
    }
    q = rope(q);
    k = rope(k);
    backend::PagedAttention attention;
    attention.slot = b_.state(0, 1, head, head);
    b_.push(backend::KvWrite{k, v, attention.slot});
    attention.q = q;
    attention.heads = width_ / head;
    attention.scale = 0.125F;
    ValueId a = b_.add(attention, q, width_);
    if (last) {
      a = b_.gather(a);
      x = b_.gather(x);
    }
    x = add(x, product(a, width_));
    const ValueId f = norm(x, width_);
    return add(x, kind_.experts ? experts(f) : dense(f));
  }

  ValueId dense(ValueId in) {
    backend::GatedActivation act;
    if (kind_.fused) {
      const ValueId both = product(in, 4 * width_);
      act.gate = b_.slice(both, 0, 2 * width_);
      act.up = b_.slice(both, 2 * width_, 2 * width_);
    } else {
      act.gate = product(in, 2 * width_);
      act.up = product(in, 2 * width_);
    }
    return product(b_.add(act, act.gate, 2 * width_), width_);
  }

  /// Two of four experts.
  ValueId experts(ValueId in) {
    constexpr std::int32_t count = 4, used = 2;
    backend::MoeRoute route;
    route.in = product(in, count, WeightType::f32);
    route.experts = count;
    route.used = used;
    route.normalize = true;
    const ValueId chosen = b_.add(route, in, 2 * used);
    const auto each = [&](ValueId from, std::int32_t columns, std::int32_t out) {
      const backend::WeightId w = b_.weight(WeightType::q8_0, columns, out, count, 1.0 / std::sqrt(columns));
      return b_.add(backend::MoeMatMul{from, chosen, w, none, none, used}, in, used * out);
    };
    backend::GatedActivation act;
    act.gate = each(in, width_, kind_.inner);
    act.up = each(in, width_, kind_.inner);
    const ValueId down = each(b_.add(act, in, used * kind_.inner), kind_.inner, width_);
    return b_.add(backend::MoeCombine{down, chosen, none, used}, in, width_);
  }

  const Kind kind_;
  const std::int32_t width_;
  op_cases::CaseBuilder b_{"steps"};
};

/// The same graph with another reader behind every op, so that hardly two ops are one launch: what folded launches are
/// compared with.
inline std::shared_ptr<const backend::Graph> with_readers(const backend::Graph& graph) {
  auto more = std::make_shared<backend::Graph>(graph);
  more->ops.clear();
  for (const backend::Op& op : graph.ops) {
    more->ops.push_back(op);
    const ValueId out = graph::io_of(op).out;
    if (out == none) continue;
    more->values.push_back(graph.values[static_cast<std::size_t>(out)]);
    more->ops.push_back(backend::Scale{out, static_cast<ValueId>(more->values.size() - 1), 1.0F});
  }
  more->groups.assign(1, {backend::GroupKind::ffn, 0, 0, static_cast<std::int32_t>(more->ops.size())});
  return more;
}

class Weights final : public backend::WeightReader {
 public:
  explicit Weights(const op_cases::OpCase& c) : case_(c) {}
  Result<void> read_rows(backend::WeightId id, std::int64_t first, std::int64_t count,
                         std::span<std::byte> out) const override {
    const auto row = out.size() / static_cast<std::size_t>(count);
    std::memcpy(out.data(), case_.weights[static_cast<std::size_t>(id)].data() + static_cast<std::size_t>(first) * row,
                out.size());
    return {};
  }

 private:
  const op_cases::OpCase& case_;
};

struct Device {
  /// `cublas`: what to open.
  explicit Device(const Kind& kind = {}, std::vector<std::string> cublas = {})
      : backend(cuda::make_cuda_backend(0, std::move(cublas))), the_case(Decoder(kind).make()) {
    program = compile(the_case.graph);
  }

  std::shared_ptr<const backend::Program> compile(const std::shared_ptr<const backend::Graph>& graph) const {
    backend::CompileOptions options;
    options.limits = {36, sequences, sequences};
    return backend->compile(graph, Weights(the_case), options).value();
  }

  std::shared_ptr<backend::Backend> backend;
  op_cases::OpCase the_case;
  std::shared_ptr<const backend::Program> program;
};

}  // namespace ptxsim::tests
