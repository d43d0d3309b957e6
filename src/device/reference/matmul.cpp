// Products with weights: embedding rows, dense and expert matrices.
#include <cmath>

#include "device/reference/ops.h"

namespace llminfer::device::reference {

void run_op(const backend::Embed& op, const Step& step) {
  const FloatWeight& w = step.weight(op.weight);
  for (std::size_t t = 0; t < step.batch.tokens.size(); ++t) {
    const float* in = w.row(step.batch.tokens[t]);
    float* out = step.data(op.out, static_cast<std::int64_t>(t));
    for (std::int64_t i = 0; i < w.columns; ++i) out[i] = in[i] * op.scale;
  }
}

void run_op(const backend::MatMul& op, const Step& step) {
  const std::int64_t n = step.rows(op.in);
  if (n == 0) return;
  const FloatWeight& w = step.weight(op.weight);
  const ConstMap in(step.data(op.in), n, w.columns);
  const ConstMap matrix(w.values.data(), w.rows, w.columns);
  Map out(step.data(op.out), n, w.rows);
  out.noalias() = in * matrix.transpose();
  if (op.bias == backend::none) return;
  const float* bias = step.weight(op.bias).values.data();
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t j = 0; j < w.rows; ++j) out(r, j) += bias[j];
  }
}

void run_op(const backend::MoeMatMul& op, const Step& step) {
  const FloatWeight& w = step.weight(op.weight);
  const std::int64_t rows = step.graph.weights[static_cast<std::size_t>(op.weight)].rows;
  const bool shared_input = step.width(op.in) == w.columns;
  for (std::int64_t r = 0; r < step.rows(op.in); ++r) {
    const float* route = step.data(op.route, r);
    for (std::int32_t s = 0; s < op.used; ++s) {
      const auto expert = static_cast<std::int64_t>(route[s]);
      const float* in = step.data(op.in, r) + (shared_input ? 0 : s * w.columns);
      float* out = step.data(op.out, r) + s * rows;
      const ConstMap matrix(w.row(expert * rows), rows, w.columns);
      Eigen::Map<Eigen::VectorXf>(out, rows).noalias() = matrix * Eigen::Map<const Eigen::VectorXf>(in, w.columns);
      if (op.bias == backend::none) continue;
      const float* bias = step.weight(op.bias).row(expert);
      for (std::int64_t j = 0; j < rows; ++j) out[j] += bias[j];
    }
  }
}

}  // namespace llminfer::device::reference
