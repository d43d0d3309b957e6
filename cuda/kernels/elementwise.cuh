// One value of the ops that take each value by itself.
#pragma once

#include "kernels/elementwise.h"

namespace llminfer::cuda {

__device__ inline float sigmoid(float v) { return 1.0F / (1.0F + expf(-v)); }

/// A gate `a` on `b`, of the last three kinds.
__device__ inline float apply_gate(const Gate& p, float a, float b) {
  if (p.kind == Elementwise::silu) return a * sigmoid(a) * b;
  // 0.5 (1 + tanh(v)) is sigmoid(2 v), which keeps its digits where tanh is near -1
  if (p.kind == Elementwise::gelu_tanh) return a * sigmoid(1.5957691216057308F * (a + 0.044715F * a * a * a)) * b;
  const float gate = fminf(a, p.y);
  const float up = fminf(fmaxf(b, -p.y), p.y);
  return gate * sigmoid(p.x * gate) * (up + 1.0F);
}

__device__ inline float apply(const ElementwiseParams& p, float a, float b) {
  switch (p.gate.kind) {
    case Elementwise::add:
      return a + b;
    case Elementwise::scale:
      return a * p.gate.x;
    case Elementwise::softcap:
      return p.gate.x * tanhf(a / p.gate.x);
    default:
      return apply_gate(p.gate, a, b);
  }
}

}  // namespace llminfer::cuda
