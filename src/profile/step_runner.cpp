#include "profile/step_runner.h"

#include "core/clock.h"
#include "core/fail.h"

namespace llminfer::profile {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw Exception(std::move(result).error());
  return std::move(result).value();
}

}  // namespace

StepRunner::StepRunner(const backend::Backend& device, std::shared_ptr<const backend::Graph> graph,
                       const backend::WeightReader& weights, const backend::Limits& limits, std::int32_t longest,
                       std::int32_t pages)
    : graph_(std::move(graph)) {
  const DeviceInfo info = device.info();
  format_ = {info.default_kv, info.default_kv};
  page_size_ = info.page_size;
  // Sequences of one step need pages of their own for what they write; together they hold as much as the longest.
  pages_ = (longest + page_size_ - 1) / page_size_ + pages * limits.sequences;
  backend::CompileOptions options;
  options.limits = limits;
  program_ = value_of(device.compile(graph_, weights, options));
  workspace_ = value_of(program_->workspace());
  kv_ = value_of(program_->make_kv(format_, std::vector<std::int32_t>(graph_->states.size(), pages_)));
}

graph::BatchShape StepRunner::run(const std::vector<graph::SequenceShape>& sequences, backend::ProfileSink* sink,
                                  Recorder* recorder) {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions, rows;
  std::vector<backend::SequenceRange> ranges;
  std::vector<std::vector<std::int32_t>> pages;
  std::int32_t next = 0;
  for (const graph::SequenceShape& s : sequences) {
    ranges.push_back({static_cast<std::int32_t>(tokens.size()), s.count, s.start, 0});
    for (std::int32_t i = 0; i < s.count; ++i) {
      tokens.push_back((s.start + i) * 7919 % graph_->vocabulary);
      positions.push_back(s.start + i);
    }
    rows.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
    std::vector<std::int32_t>& own = pages.emplace_back();
    for (std::int32_t at = 0; at < s.start + s.count; at += page_size_) own.push_back(next++ % pages_);
  }
  std::vector<backend::PageTable> tables;
  for (std::size_t g = 0; g < graph_->states.size(); ++g) {
    for (const auto& p : pages) tables.push_back({p.data(), static_cast<std::int32_t>(p.size())});
  }
  std::vector<std::int32_t> ids(rows.size());
  std::vector<float> scores(rows.size());
  backend::StepOutputs outputs;
  outputs.kind = backend::OutputKind::arg_max;
  outputs.ids = ids;
  outputs.scores = scores;
  const backend::StopFlag stop;
  const backend::StepBatch batch{tokens, positions, ranges, tables, rows};
  if (recorder != nullptr) recorder->begin_step(batch);
  const core::SteadyClock clock;
  const std::int64_t begin = clock.now_ns();
  const backend::Status status = program_->run(batch, *kv_, *workspace_, outputs, stop, sink);
  seconds_ = static_cast<double>(clock.now_ns() - begin) * 1e-9;
  if (recorder != nullptr) recorder->end_step(status.ok());
  if (!status.ok()) core::fail(status.code, "calibration: {}", status.message);
  graph::BatchShape shape;
  shape.sequences = sequences;
  shape.outputs = static_cast<std::int32_t>(rows.size());
  shape.kv = format_;
  return shape;
}

}  // namespace llminfer::profile
