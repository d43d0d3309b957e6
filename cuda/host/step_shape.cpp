#include "host/step_shape.h"

#include <algorithm>
#include <bit>

#include "kernels/attention_mma.h"
#include "kernels/attention_tiled.h"

namespace llminfer::cuda {
namespace {

std::int32_t bucket(std::int32_t n, std::int32_t limit) noexcept {
  if (n <= 0) return 0;
  return std::min(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(n))), limit);
}

}  // namespace

StepShape shape_of(const backend::StepBatch& batch, const backend::StepOutputs& outputs, const backend::Limits& limits,
                   std::int32_t context, bool exact) noexcept {
  StepShape s;
  s.tokens = static_cast<std::int32_t>(batch.tokens.size());
  s.outputs = static_cast<std::int32_t>(batch.output_rows.size());
  s.hidden = outputs.kind == backend::OutputKind::hidden;
  s.single = true;
  for (const backend::SequenceRange& r : batch.sequences) {
    s.longest = std::max(s.longest, r.start + r.count);
    s.single = s.single && r.count == 1;
    if (r.count > attention_few_tokens) s.many += r.count;
  }
  if (exact || !s.single) return s;
  s.filled = true;
  s.all_rows = s.tokens == s.outputs;
  for (std::size_t r = 0; r < batch.output_rows.size(); ++r) {
    s.all_rows = s.all_rows && batch.output_rows[r] == static_cast<std::int32_t>(r);
  }
  s.tokens = bucket(s.tokens, limits.tokens);
  s.outputs = bucket(s.outputs, limits.outputs);
  if (s.all_rows) s.outputs = std::min(s.outputs, s.tokens);  // they are the tokens' own rows
  s.longest = bucket(std::max(s.longest, attention_least_keys), std::max(s.longest, context));
  return s;
}

}  // namespace llminfer::cuda
