#include "counting_device.h"

#include <algorithm>
#include <set>

namespace llminfer::tests {
namespace {

using namespace backend;

std::size_t z(std::int64_t n) { return static_cast<std::size_t>(n); }

std::size_t moe_layer(const Graph& graph, ValueId route) {
  std::size_t layer = 0;
  for (const Op& op : graph.ops) {
    if (const auto* r = std::get_if<MoeRoute>(&op)) {
      if (r->out == route) return layer;
      ++layer;
    }
  }
  return layer;
}

/// The loops of one op.
class Loops {
 public:
  Loops(const Graph& graph, const CountedStep& step) : graph_(graph), step_(step) {}

  graph::OpCost run(const Op& op) {
    std::visit([this](const auto& o) { loop(o); }, op);
    graph::OpCost out;
    for (const auto& [id, t] : values_) out.activation_bytes += t.bytes();
    for (const auto& [id, t] : weights_) out.weight_bytes += t.bytes();
    for (const CountedTensor& t : kv_read_) out.kv_read_bytes += t.bytes();
    for (const CountedTensor& t : kv_written_) out.kv_write_bytes += t.bytes();
    out.flops = flops_;
    return out;
  }

 private:
  // ---- tensors

  std::size_t rows(ValueId id) const {
    const bool tokens = graph_.values[z(id)].rows == Rows::tokens;
    return tokens ? step_.tokens.size() : step_.output_rows.size();
  }
  std::size_t width(ValueId id) const { return z(graph_.values[z(id)].width); }
  /// One float of an activation, read or written.
  void value(ValueId id, std::size_t row, std::size_t column) {
    auto at = values_.find(id);
    if (at == values_.end()) at = values_.emplace(id, CountedTensor(rows(id) * width(id), sizeof(float))).first;
    at->second.touch(row * width(id) + column);
  }
  /// One weight: its whole block is touched.
  void weight(WeightId id, std::size_t row, std::size_t column) {
    const Weight& w = graph_.weights[z(id)];
    const WeightTypeInfo& info = describe(w.type);
    const std::size_t blocks = z(w.columns) / info.block_size;
    auto at = weights_.find(id);
    if (at == weights_.end()) {
      at = weights_.emplace(id, CountedTensor(z(w.experts * w.rows) * blocks, info.block_bytes)).first;
    }
    at->second.touch(row * blocks + column / info.block_size);
  }
  void count(std::uint64_t operations) { flops_ += operations; }

  /// Cached rows of one side of one layer: a tensor for each sequence, units of a number or of a block of 32.
  struct Side {
    std::size_t unit_values, unit_bytes, units;  // of one row
    Side(KvType type, std::int32_t row) {
      const bool quantized = type == KvType::q8_0 || type == KvType::q4_0;
      unit_values = quantized ? 32 : 1;
      unit_bytes = type == KvType::q8_0 ? 34 : type == KvType::q4_0 ? 18 : type == KvType::f32 ? 4 : 2;
      units = (z(row) + unit_values - 1) / unit_values;
    }
  };
  void cached(CountedTensor& t, const Side& side, std::size_t heads, std::size_t position, std::size_t head,
              std::size_t column) {
    t.touch((position * heads + head) * side.units + column / side.unit_values);
  }

  /// Calls body(sequence, token of the batch, position).
  template <class Body>
  void each_token(Body&& body) {
    std::size_t token = 0;
    for (std::size_t s = 0; s < step_.shape.sequences.size(); ++s) {
      const graph::SequenceShape& shape = step_.shape.sequences[s];
      for (std::int32_t i = 0; i < shape.count; ++i) body(s, token++, shape.start + i);
    }
  }
  template <class Body>
  void each_value(ValueId id, Body&& body) {
    for (std::size_t r = 0; r < rows(id); ++r) {
      for (std::size_t c = 0; c < width(id); ++c) body(r, c);
    }
  }

  // ---- ops

  void loop(const Embed& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      weight(o.weight, z(step_.tokens[r]), c);
      if (o.scale != 1.0F) count(1);
      value(o.out, r, c);
    });
  }
  void loop(const RmsNorm& o) {
    each_value(o.in, [&](std::size_t r, std::size_t c) {
      if (c % z(o.group) == 0) count(4);  // mean, eps, root, reciprocal
      value(o.in, r, c);
      count(2);  // square, sum
      weight(o.weight, 0, c % z(o.group));
      count(2);
      value(o.out, r, c);
    });
  }
  void loop(const LayerNorm& o) {
    each_value(o.in, [&](std::size_t r, std::size_t c) {
      if (c == 0) count(5);  // two means, eps, root, reciprocal
      value(o.in, r, c);
      count(1);  // sum
      count(3);  // difference, square, sum
      weight(o.weight, 0, c);
      count(2);
      if (o.bias != none) {
        weight(o.bias, 0, c);
        count(1);
      }
      value(o.out, r, c);
    });
  }
  void loop(const MatMul& o) {
    for (std::size_t r = 0; r < rows(o.in); ++r) {
      for (std::size_t j = 0; j < width(o.out); ++j) {
        for (std::size_t k = 0; k < width(o.in); ++k) {
          value(o.in, r, k);
          weight(o.weight, j, k);
          count(2);
        }
        if (o.bias != none) {
          weight(o.bias, 0, j);
          count(1);
        }
        value(o.out, r, j);
      }
    }
  }
  void loop(const Rope& o) {
    const std::size_t pairs = graph_.rope_tables[z(o.table)].inverse_frequency.size();
    for (std::size_t r = 0; r < rows(o.in); ++r) {
      for (std::size_t c = 0; c < z(o.heads) * z(o.head_width); ++c) {
        value(o.in, r, c);
        value(o.out, r, c);
        if (c % z(o.head_width) < pairs) count(6);  // once a pair: 4 products, 2 sums
      }
    }
  }
  void loop(const KvWrite& o) {
    const StateGroup& g = graph_.states[z(o.slot.group)];
    const Side k(step_.shape.kv.k, g.k_width), v(step_.shape.kv.v, g.v_width);
    each_token([&](std::size_t s, std::size_t token, std::int32_t position) {
      for (std::size_t h = 0; h < z(g.heads); ++h) {
        for (std::size_t c = 0; c < z(g.k_width); ++c) {
          value(o.k, token, h * z(g.k_width) + c);
          cached(written(o.slot, s, 0, k, g), k, z(g.heads), z(position), h, c);
        }
        for (std::size_t c = 0; c < z(g.v_width) && o.v != none; ++c) {
          value(o.v, token, h * z(g.v_width) + c);
          cached(written(o.slot, s, 1, v, g), v, z(g.heads), z(position), h, c);
        }
      }
    });
  }
  void loop(const PagedAttention& o) {
    const StateGroup& g = graph_.states[z(o.slot.group)];
    const Side k(step_.shape.kv.k, g.k_width), v(step_.shape.kv.v, g.v_width);
    each_token([&](std::size_t s, std::size_t token, std::int32_t position) {
      const graph::SequenceShape& shape = step_.shape.sequences[s];
      const std::int32_t last = o.mode == AttentionMode::full ? shape.start + shape.count - 1 : position;
      const std::int32_t first = g.window > 0 ? std::max(0, position - g.window + 1) : 0;
      for (std::size_t h = 0; h < z(o.heads); ++h) {
        const std::size_t shared = h / z(o.heads / g.heads);
        for (std::int32_t p = first; p <= last; ++p) {
          for (std::size_t c = 0; c < z(g.k_width); ++c) {
            value(o.q, token, h * z(g.k_width) + c);
            cached(read(s, 0, k, g), k, z(g.heads), z(p), shared, c);
            count(2);
          }
          count(1);                 // scale
          if (o.cap > 0) count(3);  // quotient, tanh, product
          count(3);                 // difference to the maximum, exponential, sum
          for (std::size_t c = 0; c < z(g.v_width); ++c) {
            cached(read(s, 1, v, g), v, z(g.heads), z(p), shared, c);
            count(2);
          }
        }
        if (o.sinks != none) {
          weight(o.sinks, 0, h);
          count(3);
        }
        for (std::size_t c = 0; c < z(g.v_width); ++c) {
          count(1);
          value(o.out, token, h * z(g.v_width) + c);
        }
      }
    });
  }
  void loop(const GatedActivation& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      value(o.gate, r, c);
      value(o.up, r, c);
      if (o.kind == Activation::silu) count(3 + 2);               // sigmoid: exponential, sum, quotient; two products
      if (o.kind == Activation::gelu_tanh) count(4 + 1 + 1 + 4);  // polynomial, tanh, 1 +, products
      if (o.kind == Activation::swiglu_clip) count(2 + 1 + 3 + 1 + 1 + 1);
      value(o.out, r, c);
    });
  }
  void loop(const Add& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      value(o.a, r, c);
      value(o.b, r, c);
      count(1);
      value(o.out, r, c);
    });
  }
  void loop(const Scale& o) { map(o.in, o.out, 1); }
  void loop(const Softcap& o) { map(o.in, o.out, 3); }
  void map(ValueId in, ValueId out, std::uint64_t operations) {
    each_value(out, [&](std::size_t r, std::size_t c) {
      value(in, r, c);
      count(operations);
      value(out, r, c);
    });
  }
  void loop(const Slice& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      value(o.in, r, z(o.offset) + c);
      value(o.out, r, c);
    });
  }
  void loop(const GatherRows& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      value(o.in, z(step_.output_rows[r]), c);
      value(o.out, r, c);
    });
  }
  void loop(const MoeRoute& o) {
    const std::size_t used = z(o.used);
    for (std::size_t r = 0; r < rows(o.in); ++r) {
      for (std::size_t e = 0; e < z(o.experts); ++e) {
        value(o.in, r, e);
        if (o.gating == Gating::softmax) count(4);
        if (o.gating == Gating::sigmoid) count(3);
        if (o.selection_bias == none) continue;
        weight(o.selection_bias, 0, e);
        count(1);
      }
      for (std::size_t n = 0; n < used; ++n) {
        if (o.gating == Gating::softmax_selected) count(4);
        if (o.normalize && o.gating != Gating::softmax_selected) count(2);
        if (o.scale != 1.0F) count(1);
        value(o.out, r, n);
        value(o.out, r, used + n);
      }
    }
  }
  void loop(const MoeMatMul& o) {
    const Weight& w = graph_.weights[z(o.weight)];
    const std::size_t layer = moe_layer(graph_, o.route);
    const bool shared = width(o.in) == z(w.columns);
    for (std::size_t r = 0; r < rows(o.in); ++r) {
      const std::vector<std::int32_t> chosen = chosen_experts(layer, r, static_cast<std::int32_t>(w.experts), o.used);
      for (std::size_t n = 0; n < chosen.size(); ++n) {
        value(o.route, r, n);  // the id
        for (std::size_t j = 0; j < z(w.rows); ++j) {
          for (std::size_t k = 0; k < z(w.columns); ++k) {
            value(o.in, r, (shared ? 0 : n * z(w.columns)) + k);
            weight(o.weight, z(chosen[n]) * z(w.rows) + j, k);
            count(2);
          }
          if (o.bias != none) {
            weight(o.bias, z(chosen[n]), j);
            count(1);
          }
          value(o.out, r, n * z(w.rows) + j);
        }
      }
    }
  }
  void loop(const MoeCombine& o) {
    each_value(o.out, [&](std::size_t r, std::size_t c) {
      for (std::size_t n = 0; n < z(o.used); ++n) {
        value(o.route, r, z(o.used) + n);  // the weight
        value(o.in, r, n * width(o.out) + c);
        count(2);
      }
      value(o.out, r, c);
    });
  }

  CountedTensor& read(std::size_t sequence, int side, const Side& shape, const StateGroup& g) {
    return tensor(kv_read_, sequence, side, shape, g);
  }
  CountedTensor& written(StateSlot, std::size_t sequence, int side, const Side& shape, const StateGroup& g) {
    return tensor(kv_written_, sequence, side, shape, g);
  }
  CountedTensor& tensor(std::vector<CountedTensor>& all, std::size_t sequence, int side, const Side& shape,
                        const StateGroup& g) {
    while (all.size() <= 2 * sequence + 1) {
      const graph::SequenceShape& s = step_.shape.sequences[all.size() / 2];
      const Side of(all.size() % 2 == 0 ? step_.shape.kv.k : step_.shape.kv.v,
                    all.size() % 2 == 0 ? g.k_width : g.v_width);
      all.emplace_back(z(s.start + s.count) * z(g.heads) * std::max<std::size_t>(1, of.units), of.unit_bytes);
    }
    static_cast<void>(shape);
    return all[2 * sequence + z(side)];
  }

  const Graph& graph_;
  const CountedStep& step_;
  std::map<ValueId, CountedTensor> values_;
  std::map<WeightId, CountedTensor> weights_;
  std::vector<CountedTensor> kv_read_, kv_written_;
  std::uint64_t flops_ = 0;
};

}  // namespace

std::vector<std::int32_t> chosen_experts(std::size_t layer, std::size_t row, std::int32_t experts, std::int32_t used) {
  std::vector<std::int32_t> out;
  std::uint32_t random = static_cast<std::uint32_t>(layer * 7919 + row) * 2654435761U + 1;
  while (out.size() < z(used)) {
    random = random * 1664525U + 1013904223U;
    const auto expert = static_cast<std::int32_t>((random >> 8) % static_cast<std::uint32_t>(experts));
    if (std::find(out.begin(), out.end(), expert) == out.end()) out.push_back(expert);
  }
  return out;
}

void complete(const Graph& graph, CountedStep& step) {
  step.shape.distinct_tokens =
      static_cast<std::int32_t>(std::set<Token>(step.tokens.begin(), step.tokens.end()).size());
  step.shape.experts_hit.clear();
  for (const Op& op : graph.ops) {
    const auto* route = std::get_if<MoeRoute>(&op);
    if (route == nullptr) continue;
    const bool tokens = graph.values[z(route->in)].rows == Rows::tokens;
    std::set<std::int32_t> hit;
    for (std::size_t r = 0; r < (tokens ? step.tokens.size() : step.output_rows.size()); ++r) {
      for (const std::int32_t e : chosen_experts(step.shape.experts_hit.size(), r, route->experts, route->used)) {
        hit.insert(e);
      }
    }
    step.shape.experts_hit.push_back(static_cast<std::int32_t>(hit.size()));
  }
}

graph::OpCost count_op(const Graph& graph, std::size_t index, const CountedStep& step) {
  return Loops(graph, step).run(graph.ops[index]);
}

}  // namespace llminfer::tests
