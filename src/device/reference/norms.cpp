#include <cmath>

#include "device/reference/ops.h"

namespace llminfer::device::reference {

void run_op(const backend::RmsNorm& op, const Step& step) {
  const float* weight = step.weight(op.weight).values.data();
  const std::int64_t groups = step.rows(op.in) * (step.width(op.in) / op.group);
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* in = step.data(op.in) + g * op.group;
    float* out = step.data(op.out) + g * op.group;
    double squares = 0;
    for (std::int32_t i = 0; i < op.group; ++i) squares += static_cast<double>(in[i]) * in[i];
    const double scale = 1.0 / std::sqrt(squares / op.group + op.eps);
    for (std::int32_t i = 0; i < op.group; ++i) out[i] = static_cast<float>(in[i] * scale * weight[i]);
  }
}

void run_op(const backend::LayerNorm& op, const Step& step) {
  const std::int64_t width = step.width(op.in);
  const float* weight = step.weight(op.weight).values.data();
  const float* bias = op.bias == backend::none ? nullptr : step.weight(op.bias).values.data();
  for (std::int64_t r = 0; r < step.rows(op.in); ++r) {
    const float* in = step.data(op.in, r);
    float* out = step.data(op.out, r);
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += in[i];
    const double mean = sum / static_cast<double>(width);
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + op.eps);
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = static_cast<float>((in[i] - mean) * scale * weight[i] + (bias == nullptr ? 0.0F : bias[i]));
    }
  }
}

}  // namespace llminfer::device::reference
