// The ops that work column by column: some columns of one row.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/cpu/executor.h"

namespace llminfer::cpu {

/// One op on columns [begin, begin + count) of one row.
struct ColumnOp {
  const Executor& run;
  std::int64_t row;
  std::int64_t begin;
  std::int64_t count;
  int thread;

  float* at(backend::ValueId id) const noexcept { return run.value(id, row, thread) + begin; }

  void operator()(const backend::GatedActivation& op) const noexcept {
    switch (op.kind) {
      case backend::Activation::silu:
        run.kernels_.silu(at(op.gate), at(op.up), at(op.out), count);
        return;
      case backend::Activation::gelu_tanh:
        run.kernels_.gelu_tanh(at(op.gate), at(op.up), at(op.out), count);
        return;
      case backend::Activation::swiglu_clip:
        run.kernels_.swiglu_clip(at(op.gate), at(op.up), at(op.out), count, op.alpha, op.limit);
        return;
    }
  }
  void operator()(const backend::Add& op) const noexcept { run.kernels_.add(at(op.a), at(op.b), at(op.out), count); }
  void operator()(const backend::Scale& op) const noexcept {
    run.kernels_.scale(at(op.in), at(op.out), count, op.factor);
  }
  void operator()(const backend::Softcap& op) const noexcept {
    run.kernels_.softcap(at(op.in), at(op.out), count, op.cap);
  }
  void operator()(const backend::Slice& op) const noexcept {
    std::memcpy(at(op.out), at(op.in) + op.offset, sizeof(float) * static_cast<std::size_t>(count));
  }
  void operator()(const backend::MoeCombine& op) const noexcept {
    const float* factors = run.value(op.route, row, thread) + op.used;
    const std::int64_t width = run.width(op.out);  // of each expert's part of the input
    run.kernels_.scale(at(op.in), at(op.out), count, factors[0]);
    for (std::int32_t s = 1; s < op.used; ++s) {
      run.kernels_.accumulate(at(op.in) + s * width, at(op.out), count, factors[s]);
    }
  }
  template <class Op>
  void operator()(const Op&) const noexcept {}  // not column by column: no schedule has it here
};

}  // namespace llminfer::cpu
