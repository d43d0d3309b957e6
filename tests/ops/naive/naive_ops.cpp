// What graph.hpp says of each op, as loops.
#include <algorithm>
#include <cmath>

#include "naive_program.hpp"

namespace naive {

std::size_t Step::rows(ValueId id) const noexcept {
  const bool tokens = graph.values[static_cast<std::size_t>(id)].rows == Rows::tokens;
  return tokens ? batch.tokens.size() : batch.output_rows.size();
}
std::size_t Step::width(ValueId id) const noexcept {
  return static_cast<std::size_t>(graph.values[static_cast<std::size_t>(id)].width);
}
double* Step::row(ValueId id, std::size_t r) const noexcept {
  return space.values[static_cast<std::size_t>(id)].data() + r * width(id);
}

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// out[j] = sum_k in[k] * matrix[j][k] + bias[j]
void multiply(const double* in, const float* matrix, const float* bias, double* out, std::size_t columns,
              std::size_t rows) {
  for (std::size_t j = 0; j < rows; ++j) {
    double sum = bias == nullptr ? 0 : bias[j];
    for (std::size_t k = 0; k < columns; ++k) sum += in[k] * matrix[j * columns + k];
    out[j] = sum;
  }
}

class Run {
 public:
  explicit Run(const Step& step) : s_(step) {}

  void operator()(const Embed& op) const {
    const float* table = s_.weight(op.weight);
    const std::size_t width = s_.width(op.out);
    for (std::size_t t = 0; t < s_.batch.tokens.size(); ++t) {
      const float* in = table + static_cast<std::size_t>(s_.batch.tokens[t]) * width;
      for (std::size_t i = 0; i < width; ++i) s_.row(op.out, t)[i] = static_cast<double>(in[i]) * op.scale;
    }
  }

  void operator()(const RmsNorm& op) const {
    const auto group = static_cast<std::size_t>(op.group);
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      for (std::size_t first = 0; first < s_.width(op.in); first += group) {
        const double* in = s_.row(op.in, r) + first;
        double squares = 0;
        for (std::size_t i = 0; i < group; ++i) squares += in[i] * in[i];
        const double root = std::sqrt(squares / static_cast<double>(group) + op.eps);
        for (std::size_t i = 0; i < group; ++i) s_.row(op.out, r)[first + i] = in[i] / root * s_.weight(op.weight)[i];
      }
    }
  }

  void operator()(const LayerNorm& op) const {
    const std::size_t width = s_.width(op.in);
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      const double* in = s_.row(op.in, r);
      double mean = 0;
      for (std::size_t i = 0; i < width; ++i) mean += in[i] / static_cast<double>(width);
      double variance = 0;
      for (std::size_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
      for (std::size_t i = 0; i < width; ++i) {
        const double bias = op.bias == none ? 0 : s_.weight(op.bias)[i];
        s_.row(op.out, r)[i] = (in[i] - mean) / std::sqrt(variance + op.eps) * s_.weight(op.weight)[i] + bias;
      }
    }
  }

  void operator()(const MatMul& op) const {
    const float* bias = op.bias == none ? nullptr : s_.weight(op.bias);
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      multiply(s_.row(op.in, r), s_.weight(op.weight), bias, s_.row(op.out, r), s_.width(op.in), s_.width(op.out));
    }
  }

  void operator()(const Rope& op) const {
    const RopeTable& table = s_.graph.rope_tables[static_cast<std::size_t>(op.table)];
    const std::size_t pairs = table.inverse_frequency.size();
    const bool half = op.pairing == RopePairing::half;
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      std::copy_n(s_.row(op.in, r), s_.width(op.in), s_.row(op.out, r));
      for (std::int32_t h = 0; h < op.heads; ++h) {
        const double* in = s_.row(op.in, r) + h * op.head_width;
        double* out = s_.row(op.out, r) + h * op.head_width;
        for (std::size_t i = 0; i < pairs; ++i) {
          const std::size_t a = half ? i : 2 * i;
          const std::size_t b = half ? i + pairs : 2 * i + 1;
          const double angle = static_cast<double>(s_.batch.positions[r]) * table.inverse_frequency[i];
          out[a] = (in[a] * std::cos(angle) - in[b] * std::sin(angle)) * table.magnitude;
          out[b] = (in[a] * std::sin(angle) + in[b] * std::cos(angle)) * table.magnitude;
        }
      }
    }
  }

  void operator()(const KvWrite& op) const { run_cache_op(op, s_); }
  void operator()(const PagedAttention& op) const { run_cache_op(op, s_); }

  void operator()(const GatedActivation& op) const {
    each(op.out, [&](std::size_t r, std::size_t i) { return gated(op, s_.row(op.gate, r)[i], s_.row(op.up, r)[i]); });
  }
  void operator()(const Add& op) const {
    each(op.out, [&](std::size_t r, std::size_t i) { return s_.row(op.a, r)[i] + s_.row(op.b, r)[i]; });
  }
  void operator()(const Scale& op) const {
    each(op.out, [&](std::size_t r, std::size_t i) { return s_.row(op.in, r)[i] * op.factor; });
  }
  void operator()(const Softcap& op) const {
    each(op.out, [&](std::size_t r, std::size_t i) { return op.cap * std::tanh(s_.row(op.in, r)[i] / op.cap); });
  }
  void operator()(const Slice& op) const {
    const auto offset = static_cast<std::size_t>(op.offset);
    each(op.out, [&](std::size_t r, std::size_t i) { return s_.row(op.in, r)[offset + i]; });
  }
  void operator()(const GatherRows& op) const {
    each(op.out, [&](std::size_t r, std::size_t i) {
      return s_.row(op.in, static_cast<std::size_t>(s_.batch.output_rows[r]))[i];
    });
  }

  void operator()(const MoeRoute& op) const {
    const auto used = static_cast<std::size_t>(op.used);
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      double* score = s_.space.scores.data();
      double* key = score + op.experts;  // what the choice goes by; taken ones become -infinity
      rate(op, s_.row(op.in, r), score);
      for (std::int32_t e = 0; e < op.experts; ++e) {
        key[e] = score[e] + (op.selection_bias == none ? 0.0 : s_.weight(op.selection_bias)[e]);
      }
      double* ids = s_.row(op.out, r);
      double* weights = ids + used;
      double total = 0;
      for (std::size_t n = 0; n < used; ++n) {
        const auto best = std::max_element(key, key + op.experts) - key;  // the first of equals
        key[best] = -HUGE_VAL;
        ids[n] = static_cast<double>(best);
        weights[n] = op.gating == Gating::softmax_selected ? std::exp(score[best]) : score[best];
        total += weights[n];
      }
      const bool divide = op.normalize || op.gating == Gating::softmax_selected;
      for (std::size_t n = 0; n < used; ++n) weights[n] *= op.scale / (divide ? total : 1.0);
    }
  }

  void operator()(const MoeMatMul& op) const {
    const Weight& shape = s_.graph.weights[static_cast<std::size_t>(op.weight)];
    const auto columns = static_cast<std::size_t>(shape.columns);
    const auto rows = static_cast<std::size_t>(shape.rows);
    const bool one_input = s_.width(op.in) == columns;
    for (std::size_t r = 0; r < s_.rows(op.in); ++r) {
      for (std::size_t n = 0; n < static_cast<std::size_t>(op.used); ++n) {
        const auto expert = static_cast<std::size_t>(s_.row(op.route, r)[n]);
        const float* bias = op.bias == none ? nullptr : s_.weight(op.bias) + expert * rows;
        multiply(s_.row(op.in, r) + (one_input ? 0 : n * columns), s_.weight(op.weight) + expert * rows * columns, bias,
                 s_.row(op.out, r) + n * rows, columns, rows);
      }
    }
  }

  void operator()(const MoeCombine& op) const {
    const auto used = static_cast<std::size_t>(op.used);
    each(op.out, [&](std::size_t r, std::size_t i) {
      double sum = 0;
      for (std::size_t n = 0; n < used; ++n) {
        sum += s_.row(op.route, r)[used + n] * s_.row(op.in, r)[n * s_.width(op.out) + i];
      }
      return sum;
    });
  }

 private:
  template <class F>
  void each(ValueId out, F&& value) const {
    for (std::size_t r = 0; r < s_.rows(out); ++r) {
      for (std::size_t i = 0; i < s_.width(out); ++i) s_.row(out, r)[i] = value(r, i);
    }
  }

  static double gated(const GatedActivation& op, double g, double u) {
    if (op.kind == Activation::silu) return g * sigmoid(g) * u;
    if (op.kind == Activation::gelu_tanh) {
      const double inner = std::sqrt(2 / 3.141592653589793) * (g + 0.044715 * g * g * g);
      return g / 2 * (1 + std::tanh(inner)) * u;
    }
    const double limit = op.limit;
    g = std::min(g, limit);
    u = std::max(-limit, std::min(u, limit));
    return g * sigmoid(op.alpha * g) * (u + 1);
  }

  static void rate(const MoeRoute& op, const double* logits, double* score) {
    double total = 0;
    for (std::int32_t e = 0; e < op.experts; ++e) total += std::exp(logits[e]);
    for (std::int32_t e = 0; e < op.experts; ++e) {
      score[e] = logits[e];
      if (op.gating == Gating::softmax) score[e] = std::exp(logits[e]) / total;
      if (op.gating == Gating::sigmoid) score[e] = sigmoid(logits[e]);
    }
  }

  const Step& s_;
};

}  // namespace

void run(const Op& op, const Step& step) noexcept { std::visit(Run(step), op); }

}  // namespace naive
