// Ops that work on each row by itself as the parameters of their kernels. Others: the files run_*.cpp.
#include "host/executor.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/norms.h"

namespace llminfer::cuda {

Gate Executor::gate_of(const backend::GatedActivation& op) noexcept {
  Gate g;
  g.kind = op.kind == backend::Activation::silu        ? Elementwise::silu
           : op.kind == backend::Activation::gelu_tanh ? Elementwise::gelu_tanh
                                                       : Elementwise::swiglu_clip;
  g.x = op.alpha;
  g.y = op.limit;
  return g;
}

cudaError_t Executor::run_one(const backend::Embed& op) noexcept {
  EmbedParams p;
  p.weight = program_.file_bytes(op.weight);
  p.tokens = space_.step.tokens();
  p.out = data(op.out);
  p.row_bytes = static_cast<std::int64_t>(program_.placed(op.weight).row_bytes);
  p.rows = rows(op.out);
  p.width = width(op.out);
  p.scale = op.scale;
  p.type = weight(op.weight).type;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::LayerNorm& op) noexcept {
  NormParams p;
  p.in = data(op.in);
  p.weight = program_.floats(op.weight);
  p.bias = program_.floats(op.bias);
  p.out = data(op.out);
  p.groups = rows(op.in);
  p.group = width(op.in);
  p.eps = op.eps;
  p.centred = true;
  return launch(p, stream());
}

/// The parameters that all ops on single values share.
ElementwiseParams Executor::elementwise(Elementwise kind, backend::ValueId a, backend::ValueId b,
                                        backend::ValueId out) const noexcept {
  ElementwiseParams p;
  p.a = data(a);
  p.b = b == backend::none ? nullptr : data(b);
  p.out = data(out);
  p.count = std::int64_t{rows(out)} * width(out);
  p.gate.kind = kind;
  return p;
}

cudaError_t Executor::run_one(const backend::GatedActivation& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::silu, op.gate, op.up, op.out);
  p.gate = gate_of(op);
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Add& op) noexcept {
  return launch(elementwise(Elementwise::add, op.a, op.b, op.out), stream());
}

cudaError_t Executor::run_one(const backend::Scale& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::scale, op.in, backend::none, op.out);
  p.gate.x = op.factor;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Softcap& op) noexcept {
  ElementwiseParams p = elementwise(Elementwise::softcap, op.in, backend::none, op.out);
  p.gate.x = op.cap;
  return launch(p, stream());
}

cudaError_t Executor::run_one(const backend::Slice& op) noexcept {
  CopyColumnsParams p;
  p.in = data(op.in);
  p.out = data(op.out);
  p.rows = rows(op.out);
  p.in_width = width(op.in);
  p.offset = op.offset;
  p.width = width(op.out);
  return launch(p, stream());
}

}  // namespace llminfer::cuda
