#include <algorithm>
#include <map>

#include "api/fingerprint.h"
#include "api/guard.h"
#include "api/model_body.h"
#include "core/fail.h"
#include "device/registry.h"
#include "format/model_file.h"
#include "models/file_weights.h"
#include "models/registry.h"
#include "quant/type_table.h"
#include "text/tokenizer.h"

namespace llminfer {
inline namespace v0 {
namespace {

/// `value` must lie in [low, high].
void check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    core::fail(ErrorCode::invalid_argument, "LoadOptions::{} is {}, must be {} to {}", field, value, low, high);
  }
}

void check_options(const LoadOptions& options) {
  check_range("context", options.context, 0, 1 << 24);
  check_range("max_step_tokens", options.max_step_tokens, 1, 1 << 16);
  check_range("max_sequences", options.max_sequences, 1, 1 << 12);
  check_range("k", static_cast<std::int64_t>(options.k), 0, static_cast<std::int64_t>(KvType::q4_0));
  check_range("v", static_cast<std::int64_t>(options.v), 0, static_cast<std::int64_t>(KvType::q4_0));
  if (options.devices.size() > 1) {
    core::fail(ErrorCode::unavailable, "LoadOptions::devices has {} entries; this version runs a model on one device",
               options.devices.size());
  }
  if (options.weight_type == WeightType::as_stored) return;
  const quant::QuantType* type = quant::find(options.weight_type);
  if (type == nullptr || type->pack_row == nullptr) {
    core::fail(ErrorCode::invalid_argument, "LoadOptions::weight_type is {}, which cannot be converted to",
               describe(options.weight_type).name);
  }
}

/// A file turned into a graph for a device: everything but the weights.
struct Prepared {
  Device device;
  format::ModelFile file;
  format::HyperParameters hyper;
  models::ModelGraph model;
  backend::Limits limits;
  backend::KvFormat format;
  backend::MemoryNeeds needs;
  int page_size;
  std::shared_ptr<core::Memory> host;
};

Prepared prepare(const ModelSource& source, const LoadOptions& options, const std::stop_token& stop) {
  check_options(options);
  Device device = options.devices.empty() ? Device::cpu().value() : options.devices.front();
  const DeviceInfo info = device.backend()->info();
  if (info.page_size <= 0)
    core::fail(ErrorCode::mismatch, "device '{}' has pages of {} tokens", info.kind, info.page_size);

  format::ModelFile file = format::ModelFile::open(source, stop, {options.map_file});
  models::require_known(file.architecture());  // before its hyper-parameters are looked at
  format::HyperParameters hyper = file.hyper_parameters();
  auto host = std::make_shared<core::Memory>();
  models::ModelGraph model = models::build_model(file, hyper, {options.context, options.weight_type, host});
  const backend::Limits limits{options.max_step_tokens, options.max_sequences, options.max_sequences};
  backend::KvFormat format{options.k, options.v};
  if (format.k == KvType::automatic) format.k = info.default_kv;
  if (format.v == KvType::automatic) format.v = info.default_kv;
  backend::MemoryNeeds needs = device.backend()->plan(*model.graph, limits, format).value();
  if (needs.page_bytes.size() != model.graph->states.size())
    core::fail(ErrorCode::mismatch, "device '{}' planned wrongly", info.kind);
  return {std::move(device), std::move(file), std::move(hyper), std::move(model), limits, format,
          std::move(needs),  info.page_size,  std::move(host)};
}

std::vector<std::pair<WeightType, std::uint64_t>> bytes_by_type(const backend::Graph& graph) {
  std::map<WeightType, std::uint64_t> sums;
  for (const backend::Weight& w : graph.weights) {
    const auto rows = static_cast<std::uint64_t>(w.rows) * static_cast<std::uint64_t>(w.experts);
    sums[w.type] += rows * quant::row_bytes(w.type, static_cast<std::uint64_t>(w.columns));
  }
  std::vector<std::pair<WeightType, std::uint64_t>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

SamplingOptions recommended(const format::SamplingDefaults& file) {
  SamplingOptions out;
  out.temperature = file.temperature;
  out.top_k = file.top_k.value_or(out.top_k);
  out.top_p = file.top_p.value_or(out.top_p);
  out.min_p = file.min_p.value_or(out.min_p);
  out.repetition_penalty = file.repetition_penalty.value_or(out.repetition_penalty);
  return out;
}

ModelInfo info_of(const Prepared& p, const Tokenizer& tokenizer) {
  ModelInfo info;
  info.architecture = p.hyper.architecture;
  info.name = p.hyper.name;
  for (const format::TensorInfo& t : p.file.tensors()) info.parameters += t.elements();
  info.file_bytes = p.file.tensor_bytes();
  info.context = p.model.graph->context;
  info.trained_context = p.hyper.context_length;
  info.vocabulary = p.model.graph->vocabulary;
  info.layers = p.hyper.block_count;
  info.width = p.hyper.embedding_length;
  info.heads = p.hyper.head_count(0);
  info.heads_kv = p.hyper.head_count_kv(0);
  info.k = p.format.k;
  info.v = p.format.v;
  info.weight_types = bytes_by_type(*p.model.graph);
  info.chat_template = p.file.tokenizer().chat_template;
  info.sampling = recommended(p.file.sampling());
  const std::span<const Token> stops = tokenizer.stop_tokens();
  info.stop_tokens.assign(stops.begin(), stops.end());
  info.memory = api::memory_plan(*p.model.graph, p.needs, p.page_size, p.limits.tokens, {});
  return info;
}

std::shared_ptr<const Model::Body> load(const ModelSource& source, const LoadOptions& options,
                                        const std::stop_token& stop) {
  Prepared p = prepare(source, options, stop);
  auto body =
      std::make_shared<Model::Body>(p.device, Tokenizer(std::make_shared<const text::Tokenizer>(p.file.tokenizer())));
  body->info = info_of(p, body->tokenizer);
  body->graph = p.model.graph;
  body->limits = p.limits;
  body->format = p.format;
  body->needs = std::move(p.needs);
  body->page_size = p.page_size;
  body->host = p.host;
  backend::CompileOptions compile;
  compile.limits = p.limits;
  compile.progress = options.progress;
  compile.stop = stop;
  compile.weight_cache = options.weight_cache;
  const models::FileWeights weights(std::move(p.file), p.model.graph, std::move(p.model.tensors));
  body->program = body->device.backend()->compile(body->graph, weights, compile).value();
  body->info.weight_cache = body->program->weight_cache();
  body->fingerprint = api::fingerprint(*body->graph, weights);
  return body;
}

FileSummary summary_of(const format::ModelFile& file) {
  FileSummary out;
  out.architecture = file.architecture();
  for (const format::MetadataEntry& e : file.metadata()) out.metadata.push_back({e.key, e.type, e.value});
  for (const format::TensorInfo& t : file.tensors()) {
    TensorSummary summary{std::string(t.name), t.type, {}, t.bytes};
    summary.shape.assign(t.dims.begin(), t.dims.begin() + t.n_dims);
    out.tensors.push_back(std::move(summary));
  }
  out.tensor_bytes = file.tensor_bytes();
  return out;
}

}  // namespace

Model::Model(std::shared_ptr<const Body> body) noexcept : body_(std::move(body)) {}

Result<Model> Model::open(const ModelSource& source, LoadOptions options, std::stop_token stop) {
  return api::guard("Model::open", [&] { return Model(load(source, options, stop)); });
}

Result<MemoryPlan> Model::plan_memory(const ModelSource& source, const LoadOptions& options,
                                      const SessionOptions& session) {
  return api::guard("Model::plan_memory", [&] {
    const Prepared p = prepare(source, options, {});
    SessionOptions budget = session;
    budget.kv_bytes = api::kv_budget(p.device, "SessionOptions", session.kv_bytes, session.kv_share);
    return api::memory_plan(*p.model.graph, p.needs, p.page_size, p.limits.tokens, budget);
  });
}

Result<FileSummary> Model::inspect(const ModelSource& source) {
  return api::guard("Model::inspect", [&] { return summary_of(format::ModelFile::open(source)); });
}

const ModelInfo& Model::info() const noexcept { return body_->info; }
const Tokenizer& Model::tokenizer() const noexcept { return body_->tokenizer; }

}  // namespace v0
}  // namespace llminfer
