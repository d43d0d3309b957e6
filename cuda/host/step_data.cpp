#include "host/step_data.h"

#include <algorithm>

#include "core/checked.h"
#include "kernels/attention_tiled.h"

namespace llminfer::cuda {

StepLayout plan_step(const backend::Graph& graph, const backend::Limits& limits) {
  const auto tokens = static_cast<std::uint64_t>(limits.tokens),
             sequences = static_cast<std::uint64_t>(limits.sequences);
  StepLayout l;
  const auto place = [&](std::uint64_t words) {
    const std::uint64_t at = l.words;
    l.words = core::add_or_fail(l.words, words, "words of a step", ErrorCode::out_of_memory);
    return at;
  };
  l.tokens = place(tokens);
  l.positions = place(tokens);
  l.sequence_of = place(tokens);
  l.rows = place(static_cast<std::uint64_t>(limits.outputs));
  l.longest = place(1);
  l.last = place(sequences);
  l.firsts = place(core::add_or_fail<std::uint64_t>(sequences, 1, "words of a step", ErrorCode::out_of_memory));
  l.few = place(tokens);
  for (std::size_t g = 0; g < graph.states.size(); ++g) l.pages_at.push_back(place(sequences));
  const std::uint64_t pages = (static_cast<std::uint64_t>(graph.context) + kv_page - 1) / kv_page;
  l.pages = place(core::mul_or_fail(pages * sequences, static_cast<std::uint64_t>(graph.states.size()),
                                    "pages of a step", ErrorCode::out_of_memory));
  return l;
}

StepData::StepData(const std::shared_ptr<Engine>& engine, const StepLayout& layout)
    : layout_(layout),
      host_(engine, Memory::Kind::pinned, 4 * layout.words),
      device_(engine, Memory::Kind::device, 4 * layout.words) {}

cudaError_t StepData::upload(const backend::StepBatch& batch, const StepShape& shape, std::size_t groups,
                             cudaStream_t stream) noexcept {
  const auto fill = [&](std::uint64_t offset, std::span<const std::int32_t> values, std::int32_t count,
                        std::int32_t rest) {
    std::fill(std::copy(values.begin(), values.end(), host(offset)), host(offset) + count, rest);
  };
  fill(layout_.tokens, batch.tokens, shape.tokens, 0);
  fill(layout_.positions, batch.positions, shape.tokens, -1);
  fill(layout_.sequence_of, {}, shape.tokens, 0);
  fill(layout_.rows, batch.output_rows, shape.outputs, 0);
  const std::size_t sequences = batch.sequences.size();
  std::int32_t& longest = *host(layout_.longest);
  longest = 1;
  std::int32_t few = 0;
  for (std::size_t s = 0; s < sequences; ++s) {
    const backend::SequenceRange& r = batch.sequences[s];
    std::fill_n(host(layout_.sequence_of) + r.first, r.count, static_cast<std::int32_t>(s));
    host(layout_.last)[s] = r.start + r.count - 1;
    host(layout_.firsts)[s] = r.first;
    if (r.count <= attention_few_tokens) {
      for (std::int32_t i = 0; i < r.count; ++i) host(layout_.few)[few++] = r.first + i;
    }
    longest = std::max(longest, r.start + r.count);
  }
  host(layout_.firsts)[sequences] = static_cast<std::int32_t>(batch.tokens.size());
  std::int32_t* pages = host(layout_.pages);
  std::int32_t used = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t s = 0; s < sequences; ++s) {
      // Pages behind the last token of the step are not looked at.
      const backend::PageTable& table = batch.page_tables[g * sequences + s];
      const std::int32_t n = host(layout_.last)[s] / kv_page + 1;
      host(layout_.pages_at[g])[s] = used;
      std::copy_n(table.pages, n, pages + used);
      used += n;
    }
  }
  const std::uint64_t words = layout_.pages + static_cast<std::uint64_t>(used);
  return cudaMemcpyAsync(device_.data(), host_.data(), 4 * words, cudaMemcpyHostToDevice, stream);
}

KvStep StepData::of_group(std::int32_t group) const noexcept {
  KvStep s;
  s.positions = positions();
  s.sequence_of = device_.at<std::int32_t>(4 * layout_.sequence_of);
  s.last = device_.at<std::int32_t>(4 * layout_.last);
  s.pages = device_.at<std::int32_t>(4 * layout_.pages);
  s.pages_at = device_.at<std::int32_t>(4 * layout_.pages_at[static_cast<std::size_t>(group)]);
  s.longest = device_.at<std::int32_t>(4 * layout_.longest);
  s.firsts = device_.at<std::int32_t>(4 * layout_.firsts);
  return s;
}

}  // namespace llminfer::cuda
