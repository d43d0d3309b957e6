// Products with weights that stand as they do in the file.
#include <algorithm>

#include "host/errors.h"
#include "host/executor.h"
#include "kernels/matmul_f32.h"
#include "kernels/matmul_plain.h"

namespace llminfer::cuda {

bool wants_gemm(const backend::Graph& graph, const backend::Limits& limits) noexcept {
  if (std::max(limits.tokens, limits.outputs) <= matmul_f32_few) return false;
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const backend::Op& op) {
    const auto* product = std::get_if<backend::MatMul>(&op);
    return product != nullptr && graph.weights[static_cast<std::size_t>(product->weight)].type == WeightType::f32;
  });
}

bool has_gemm(Engine& engine, const backend::Graph& graph, const backend::Limits& limits) {
  if (!wants_gemm(graph, limits)) return false;
  const std::lock_guard<std::mutex> turn(engine.turn);
  check(engine.enter(), "cudaSetDevice");
  engine.gemm.open(engine.stream());
  return engine.gemm.ready();
}

/// cuBLAS, for prompts. Steps in which each sequence has one token are left to our kernels, in which a row's bits do
/// not depend on what the others of its bucket are. False: not done.
bool Executor::product_by_gemm(const backend::MatMul& op) noexcept {
  DenseGemm& gemm = program_.engine().gemm;
  if (shape_.single || rows(op.in) <= matmul_f32_few || !gemm.ready()) return false;
  DenseProduct p;
  p.weight = program_.file_bytes(op.weight);
  p.in = data(op.in);
  p.out = data(op.out);
  p.rows = rows(op.in);
  p.columns_in = width(op.in);
  p.columns_out = width(op.out);
  p.type = weight(op.weight).type;
  if (op.bias != backend::none) {
    if (launch(BiasRowsParams{program_.floats(op.bias), p.out, p.rows, p.columns_out}, stream()) != cudaSuccess) {
      return false;
    }
    p.add = true;
  }
  if (gemm.run(p, space_.memory.at<void>(program_.plan().partials), dense_gemm_bytes)) return true;
  static_cast<void>(cudaGetLastError());  // what a lost device has left comes again with the next call
  return false;
}

cudaError_t Executor::product_of_file(const backend::MatMul& op) noexcept {
  const WeightType type = weight(op.weight).type;
  if (type == WeightType::f32 && product_by_gemm(op)) return cudaSuccess;
  if (type == WeightType::f32 && matmul_f32_takes(width(op.in))) {
    MatMulF32Params p;
    p.weight = program_.floats(op.weight);
    p.bias = program_.floats(op.bias);
    p.in = data(op.in);
    p.out = data(op.out);
    p.rows = rows(op.in);
    p.columns_in = width(op.in);
    p.columns_out = width(op.out);
    p.multiprocessors = program_.engine().multiprocessors();
    const auto* route = later<backend::MoeRoute>(1);
    if (route != nullptr && is(fusions().routes_next) && p.rows <= matmul_f32_few) {
      p.route = route_of(*route);
      p.arrivals = arrivals();
      together_ = 2;
    }
    return launch(p, stream());
  }
  MatMulPlainParams p;
  p.weight = program_.file_bytes(op.weight);
  p.bias = program_.floats(op.bias);
  p.in = data(op.in);
  p.out = data(op.out);
  p.row_bytes = static_cast<std::int64_t>(program_.placed(op.weight).row_bytes);
  p.rows = rows(op.in);
  p.columns_in = width(op.in);
  p.columns_out = width(op.out);
  p.type = type;
  return launch(p, stream());
}

}  // namespace llminfer::cuda
