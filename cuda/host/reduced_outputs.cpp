#include "host/reduced_outputs.h"

#include <algorithm>

#include "kernels/reduce_outputs.h"

namespace llminfer::cuda {
namespace {

std::int32_t k_of(const backend::StepOutputs& outputs) noexcept {
  return outputs.kind == backend::OutputKind::top_k ? outputs.k : 1;
}

std::size_t mask_words(std::int32_t vocabulary) noexcept { return (static_cast<std::size_t>(vocabulary) + 31) / 32; }

}  // namespace

ReducedOutputs::Layout ReducedOutputs::layout(std::int32_t rows, std::int32_t vocabulary) noexcept {
  if (vocabulary == 0) return {0, 0, 0, 0};
  const auto n = static_cast<std::uint64_t>(rows);
  Layout l{};
  l.scores = n * reduce_max_k;
  l.log_sum_exp = 2 * l.scores;
  l.masks = l.log_sum_exp + n;
  l.words = l.masks + n * mask_words(vocabulary);
  return l;
}

std::uint64_t ReducedOutputs::bytes(std::int32_t rows, std::int32_t vocabulary) noexcept {
  return 4 * layout(rows, vocabulary).words;
}

ReducedOutputs::ReducedOutputs(const std::shared_ptr<Engine>& engine, std::int32_t rows, std::int32_t vocabulary)
    : vocabulary_(vocabulary),
      layout_(layout(rows, vocabulary)),
      device_(engine, Memory::Kind::device, 4 * layout_.words),
      host_(engine, Memory::Kind::pinned, 4 * layout_.words) {}

bool ReducedOutputs::takes(const backend::StepOutputs& outputs) noexcept {
  if (outputs.kind == backend::OutputKind::arg_max) return true;
  return outputs.kind == backend::OutputKind::top_k && outputs.k >= 1 && outputs.k <= reduce_max_k;
}

cudaError_t ReducedOutputs::start(const float* logits, std::int32_t rows, const backend::StepOutputs& outputs,
                                  cudaStream_t stream) noexcept {
  ReduceParams p;
  p.logits = logits;
  p.ids = device_.at<std::int32_t>(0);
  p.scores = device_.at<float>(4 * layout_.scores);
  if (outputs.kind == backend::OutputKind::top_k) p.log_sum_exp = device_.at<float>(4 * layout_.log_sum_exp);
  p.rows = rows;
  p.width = vocabulary_;
  p.k = k_of(outputs);
  if (!outputs.allowed.empty()) {
    const std::size_t words = static_cast<std::size_t>(rows) * mask_words(vocabulary_);
    auto* mask = host_.at<std::uint32_t>(4 * layout_.masks);
    std::copy_n(outputs.allowed.begin(), words, mask);
    p.allowed = device_.at<std::uint32_t>(4 * layout_.masks);
    const cudaError_t e =
        cudaMemcpyAsync(device_.data() + 4 * layout_.masks, mask, 4 * words, cudaMemcpyHostToDevice, stream);
    if (e != cudaSuccess) return e;
  }
  if (const cudaError_t e = launch(p, stream); e != cudaSuccess) return e;
  // Everything before the masks, in one copy.
  return cudaMemcpyAsync(host_.data(), device_.data(), 4 * layout_.masks, cudaMemcpyDeviceToHost, stream);
}

void ReducedOutputs::finish(std::int32_t rows, const backend::StepOutputs& outputs) const noexcept {
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(k_of(outputs));
  std::copy_n(host_.at<std::int32_t>(0), count, outputs.ids.begin());
  std::copy_n(host_.at<float>(4 * layout_.scores), count, outputs.scores.begin());
  if (outputs.kind == backend::OutputKind::top_k) {
    std::copy_n(host_.at<float>(4 * layout_.log_sum_exp), rows, outputs.log_sum_exp.begin());
  }
}

}  // namespace llminfer::cuda
