#include <algorithm>
#include <cmath>

#include "device/reference/ops.h"

namespace llminfer::device::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double activate(const backend::GatedActivation& op, double g, double u) {
  switch (op.kind) {
    case backend::Activation::silu:
      return g * sigmoid(g) * u;
    case backend::Activation::gelu_tanh: {
      const double inner = std::sqrt(2.0 / 3.14159265358979323846) * (g + 0.044715 * g * g * g);
      return 0.5 * g * (1.0 + std::tanh(inner)) * u;
    }
    case backend::Activation::swiglu_clip: {
      const double gate = std::min(g, static_cast<double>(op.limit));
      const double up = std::clamp(u, -static_cast<double>(op.limit), static_cast<double>(op.limit));
      return gate * sigmoid(op.alpha * gate) * (up + 1.0);
    }
  }
  return 0;
}

}  // namespace

void run_op(const backend::GatedActivation& op, const Step& step) {
  const std::int64_t count = step.rows(op.out) * step.width(op.out);
  const float* gate = step.data(op.gate);
  const float* up = step.data(op.up);
  float* out = step.data(op.out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(activate(op, gate[i], up[i]));
}

void run_op(const backend::Add& op, const Step& step) {
  const std::int64_t count = step.rows(op.out) * step.width(op.out);
  const float* a = step.data(op.a);
  const float* b = step.data(op.b);
  float* out = step.data(op.out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void run_op(const backend::Scale& op, const Step& step) {
  const std::int64_t count = step.rows(op.out) * step.width(op.out);
  const float* in = step.data(op.in);
  float* out = step.data(op.out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = in[i] * op.factor;
}

void run_op(const backend::Softcap& op, const Step& step) {
  const std::int64_t count = step.rows(op.out) * step.width(op.out);
  const float* in = step.data(op.in);
  float* out = step.data(op.out);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(op.cap * std::tanh(static_cast<double>(in[i]) / op.cap));
  }
}

void run_op(const backend::Slice& op, const Step& step) {
  for (std::int64_t r = 0; r < step.rows(op.out); ++r) {
    std::copy_n(step.data(op.in, r) + op.offset, step.width(op.out), step.data(op.out, r));
  }
}

void run_op(const backend::GatherRows& op, const Step& step) {
  for (std::size_t r = 0; r < step.batch.output_rows.size(); ++r) {
    std::copy_n(step.data(op.in, step.batch.output_rows[r]), step.width(op.out),
                step.data(op.out, static_cast<std::int64_t>(r)));
  }
}

}  // namespace llminfer::device::reference
