#include "runtime/step_rows.h"

#include <algorithm>

namespace llminfer::runtime {
namespace {

std::size_t tops_of(std::int32_t vocabulary, std::size_t rows) {
  return rows * static_cast<std::size_t>(std::min(vocabulary, StepRows::most_top));
}

}  // namespace

StepRows::StepRows(std::shared_ptr<core::Memory> memory, std::int32_t vocabulary, std::size_t rows)
    : memory_(std::move(memory)),
      width_(static_cast<std::size_t>(vocabulary)),
      logits_(core::Array<float>::make(memory_, rows * width_)),
      top_ids_(core::Array<Token>::make(memory_, tops_of(vocabulary, rows))),
      top_logits_(core::Array<float>::make(memory_, tops_of(vocabulary, rows))),
      log_sums_(core::Array<float>::make(memory_, rows)) {}

backend::StepOutputs StepRows::outputs(int top) noexcept {
  backend::StepOutputs outputs;
  outputs.values = logits_.span();
  if (top == 0) return outputs;
  outputs.kind = top == 1 ? backend::OutputKind::arg_max : backend::OutputKind::top_k;
  outputs.ids = top_ids_.span();
  outputs.scores = top_logits_.span();
  outputs.log_sum_exp = log_sums_.span();
  outputs.k = top;
  return outputs;
}

ComputedRow StepRows::computed(std::size_t row, int top) const noexcept {
  ComputedRow computed;
  const auto count = static_cast<std::size_t>(top);
  if (top == 0) {
    computed.logits = logits(row);
  } else {
    computed.top_ids = top_ids_.span().subspan(row * count, count);
    computed.top_logits = top_logits_.span().subspan(row * count, count);
  }
  return computed;
}

std::span<std::uint32_t> StepRows::allowed(std::size_t rows) noexcept {
  return {reinterpret_cast<std::uint32_t*>(logits_.data()), rows * ((width_ + 31) / 32)};
}

void StepRows::grow(std::size_t rows) {
  if (logits_.size() < rows * width_) logits_ = core::Array<float>::make(memory_, rows * width_);
}

}  // namespace llminfer::runtime
