#include "model_run.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "format/model_file.h"
#include "models/file_weights.h"
#include "models/registry.h"

namespace llminfer::test {
namespace {

constexpr std::int32_t most_tokens = 128;

/// Pages of one sequence in every state group, in falling order: a device that ignores the table fails.
struct Pages {
  std::vector<std::int32_t> ids;
  std::vector<backend::PageTable> tables;

  Pages(std::size_t groups, std::int32_t count) : ids(static_cast<std::size_t>(count)) {
    std::iota(ids.rbegin(), ids.rend(), 0);
    tables.assign(groups, {ids.data(), count});
  }
};

}  // namespace

ModelRun::ModelRun(const std::string& path, const std::shared_ptr<backend::Backend>& device,
                   models::BuildOptions options)
    : page_size_(device->info().page_size) {
  const format::ModelFile file = format::ModelFile::open(ModelSource::file(path));
  models::ModelGraph model = models::build_model(file, file.hyper_parameters(), options);
  graph_ = model.graph;
  const models::FileWeights weights(file, model.graph, std::move(model.tensors));
  backend::CompileOptions compile;
  compile.limits = {most_tokens, 1, most_tokens};
  program_ = device->compile(graph_, weights, compile).value();
}

std::vector<float> ModelRun::logits(std::span<const Token> tokens, std::int32_t chunk) {
  const auto total = static_cast<std::int32_t>(tokens.size());
  const std::int32_t pages_needed = (total + page_size_ - 1) / page_size_;
  Pages pages(graph_->states.size(), pages_needed);
  const std::vector<std::int32_t> per_group(graph_->states.size(), pages_needed);
  const auto kv = program_->make_kv({KvType::f32, KvType::f32}, per_group).value();
  const auto workspace = program_->workspace().value();

  const auto vocabulary = static_cast<std::size_t>(graph_->vocabulary);
  std::vector<float> out(tokens.size() * vocabulary);
  std::vector<std::int32_t> positions(tokens.size());
  std::vector<std::int32_t> rows(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  const backend::StopFlag stop;
  for (std::int32_t start = 0; start < total; start += chunk) {
    const std::int32_t count = std::min(chunk, total - start);
    const auto first = static_cast<std::size_t>(start);
    const auto n = static_cast<std::size_t>(count);
    const backend::SequenceRange range{0, count, start, 0};
    backend::StepBatch batch;
    batch.tokens = tokens.subspan(first, n);
    batch.positions = std::span(positions).subspan(first, n);
    batch.sequences = std::span(&range, 1);
    batch.page_tables = pages.tables;
    batch.output_rows = std::span(rows).first(n);
    backend::StepOutputs outputs;
    outputs.values = std::span(out).subspan(first * vocabulary, n * vocabulary);
    const backend::Status status = program_->run(batch, *kv, *workspace, outputs, stop, nullptr);
    if (!status.ok()) throw std::runtime_error(status.message);
  }
  return out;
}

}  // namespace llminfer::test
