// One value of the ops that take each value by itself.
#pragma once

#include "kernels/elementwise.h"

namespace llminfer::cuda {

__device__ inline float sigmoid(float v) { return 1.0F / (1.0F + expf(-v)); }

__device__ inline float apply(const ElementwiseParams& p, float a, float b) {
  switch (p.kind) {
    case Elementwise::add:
      return a + b;
    case Elementwise::scale:
      return a * p.x;
    case Elementwise::softcap:
      return p.x * tanhf(a / p.x);
    case Elementwise::silu:
      return a * sigmoid(a) * b;
    case Elementwise::gelu_tanh:
      // 0.5 (1 + tanh(v)) is sigmoid(2 v), which keeps its digits where tanh is near -1
      return a * sigmoid(1.5957691216057308F * (a + 0.044715F * a * a * a)) * b;
    case Elementwise::swiglu_clip: {
      const float gate = fminf(a, p.y);
      const float up = fminf(fmaxf(b, -p.y), p.y);
      return gate * sigmoid(p.x * gate) * (up + 1.0F);
    }
  }
  return 0;
}

}  // namespace llminfer::cuda
